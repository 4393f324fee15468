"""The answer of each call that writes, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed
from tests.core.test_repeats import MUTATING, Call, scene

READY = ["ready3", "queue", "klass", "{}", "4", "5", "5", "0", "{}", "", "70"]
NEXT = ["ready2", "queue", "klass", "{}", "5", "5", "5", "0", "{}", "", "70"]
LOST = "settle(): Job waiting is not currently running: waiting"

ANSWERS: dict[str, Any] = {
    "put w queue new klass {} 0 tags": "new",
    "put w queue new klass {} 50": "new",
    "put w queue new klass {} 0 depends": "new",
    "put w queue waiting klass {} 0 absent": None,
    "put w other run": "run",
    "requeue": "waiting",
    "put.many": [["waiting"], []],
    "pop empty": "{}",
    "settle w2 0 2 1 queue": [[], [READY, NEXT], [], "10"],
    "settle w2 0 2 1 empty wait 5": [[], [], ["5.000", "ql:wake:empty"], "10"],
    "settle w 1 run {run} complete": [[], [READY, NEXT], [], "10"],
    "settle w 2 run {run} fail": [[["waiting", "LOCKLOST", LOST]], [], []],
    "settle w 1 run {run} retry": [[], [], []],
    "settle w 1 run {run} release": [[], [["run", *READY[1:]]], [], "10"],
    "settle w 1 run {run} unknown": [[], [], []],
    "settle w 1 run {run} crash": [[], [], []],
    "settle w 1 run {run} move": [[], [], []],
    "order": None,
    "detached.keep": "60",
    "forget": 1,
    "beat": [["waiting"], ["stop"]],
    "complete run {run} queue {} next": "scheduled",
    "complete": "complete",
    "fail": "run",
    "retry": 4,
    "heartbeat": 70,
    "release": 1,
    "progress": 1,
    "cancel": ["waiting2", "run"],
    "timeout": None,
    "depends dependent on": 1,
    "depends dependent off": 1,
    "priority": 5,
    "tag add": '["old","a","b"]',
    "tag remove": "{}",
    "track track": "1",
    "track untrack": "1",
    "unfail": 1,
    "config.set": None,
    "config.unset": None,
    "pause": None,
    "unpause": None,
    "queue.forget": None,
    "worker.deregister": None,
    "recur queue": "cron2",
    "recur.update": 1,
    "recur.tag": '["old","a"]',
    "recur.untag": "{}",
    "unrecur": 1,
    "log": None,
}  # fmt: skip


def answered(call: Call) -> Any:
    """Return the answer that a call must have, by how its words begin."""
    words = " ".join(str(part) for part in call if part != "") + " "
    found = [
        answer for start, answer in ANSWERS.items() if words.startswith(f"{start} ")
    ]
    assert found, words
    return found[0]


@pytest.mark.parametrize(
    "call",
    [call for call in MUTATING if call[:2] != ("pop", "queue")],
    ids=lambda call: " ".join(map(str, call))[:60],
)
def test_the_answer(keyed: Keyed, call: Call) -> None:
    tokens = scene(keyed)
    command, *args = [tokens.get(part, part) for part in call]
    assert keyed.call(command, *args, now=10) == answered(call)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (("unfail", "queue", "nosuch"), 0),
        (("revive", "waiting", "failing"), 1),
        (("track", "untrack", "waiting"), "0"),
        (("track", "track", "tracked"), "0"),
        (("spawn", "run", "{run}", "w", "child", "q", "k", "{}", 0, 0), [[], []]),
        (("spawn", "run", "{run}", "w", "waiting", "q", "k", "{}", 0, 1, "absent", 1),
         [["waiting"], []]),
        (("workflow.put", "f", "w", "{}", "a", "q", "k", "{}", 0, 1, "workflow", "f"),
         "f"),
        (("schedule.set", "s", "q", "k", "{}", "interval", 60), "new"),
    ],
    ids=lambda part: " ".join(map(str, part))[:40] if isinstance(part, tuple) else "",
)  # fmt: skip
def test_further_answers(keyed: Keyed, call: Call, answer: Any) -> None:
    tokens = scene(keyed)
    command, *args = [tokens.get(part, part) for part in call]
    assert keyed.call(command, *args, now=10) == answer
