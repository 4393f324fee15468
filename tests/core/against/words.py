"""What drawn calls of qless-core's protocol are made of, and what no client should send."""

from __future__ import annotations

import random
from typing import Any

JIDS = [*(f"j{n:02}" for n in range(10)), "j01-1", "j02-histor", "é 1"]
RECURRING = ["r1", "r2", "j09"]
QUEUES = ["a", "b", "a", "b", "c", "a-b", "q:é"]
WORKERS = ["w1", "w1", "w2", "host-1-77"]
TAGS = ["red", "green", "blue", "1"]
GROUPS = ["broken", "slow", "failed-retries-a", "failed-retries-b"]
DATA = [
    "{}", "[]", '{"foo": "bar"}', ' {"b" :1}', "null", '"text"', "12345678901234567",
    '{"a":[{},[]],"é":"\\u00e9\\n"}', "[1.0,1e2,0.1]", "true",
]  # fmt: skip
STATES = ["running", "stalled", "scheduled", "depends", "recurring", "waiting", "done"]
OPTIONS: list[tuple[str, list[Any]]] = [
    ("heartbeat", [0, 10, 60, -5]), ("grace-period", [0, 0, 5, 10]),
    ("a-heartbeat", [3, 90]), ("b-max-concurrency", [0, 1, 2]), ("jobs-history", [-1, 60]),
    ("jobs-history-count", [0, 1, 3]), ("max-job-history", [0, 1, 2, 3, 5]),
    ("max-worker-age", [30, 3600]), ("stats-history", [0, 1]), ("histogram-history", [1]),
    ("application", ["mine", ""]), ("any", ["x", "1"]), ("heartbeat-a", [5]),
]  # fmt: skip

#: Of so many calls half are puts: the others need jobs.
FIRST = 16

#: What no client should send anywhere.
ODD: list[Any] = [
    "", " ", "abc", "nan", "-nan", "inf", "0x10", "1e999", "-0", "1e300", "9" * 30, "-1",
    "0.5", "1 2", "\0", "a\0b", "{", "[1", "[NaN]", "[01]", '{"a":1}', '["a",1,"a"]', "[[1]]",
    "{}", "[]", "null", "nosuch", "j01", "a", "w1", b"\xff\xfe", "x-history", "x-dependents", "*",
]  # fmt: skip


def spoiled(chance: random.Random, args: list[Any]) -> list[Any]:
    """Return arguments with one that is wrong, missing or too many."""
    changed, place = list(args), chance.randint(0, len(args))
    match chance.choice(["replace", "replace", "replace", "drop", "cut", "insert"]):
        case "replace":
            changed[place : place + 1] = [chance.choice(ODD)]
        case "drop":
            del changed[place : place + 1]
        case "cut":
            del changed[place:]
        case _:
            changed.insert(place, chance.choice(ODD))
    return changed
