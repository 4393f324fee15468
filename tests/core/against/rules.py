"""What may differ between two builds: by nature, and because it is meant to.

A rule takes what one side answered, published or stored, and gives it back without what
does not count. Both sides are compared again after it. The clock and request ids need
no rule: both sides are given the same. Tokens are compared by their rank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import redis

from tests.core.against.side import Step
from tests.core.keyspace import Snapshot


def same(_: Step, part: Any) -> Any:
    """Change nothing."""
    return part


class Rule(NamedTuple):
    """What does not count, and why; of replies, of events, of keys."""

    name: str
    reason: str
    reply: Callable[[Step, Any], Any] = same
    events: Callable[[Step, list[str]], list[str]] = same
    keys: Callable[[Step, Snapshot], Snapshot] = same


def without_positions(_: Step, reply: Any) -> Any:
    """Take out of an error where in which script or library it was raised."""
    if not isinstance(reply, redis.ResponseError):
        return reply
    text = re.sub(r"user_\w+:\d+", "user_script:0", str(reply))
    return "error", re.sub(r"script: \w+, on @user_script:0", "script", text)


def without_rests(step: Step, reply: Any) -> Any:
    """Take out for how long something lasts yet."""
    if step.operation.command == "schedule.due" and isinstance(reply, list):
        return ["", *reply[1:]] if reply[2] == 0 else reply
    if isinstance(reply, str):
        return re.sub(r'"(returned|result_ttl)":-?[\d.]+', r'"\1":0', reply)
    return reply


def with_members_in_order(step: Step, reply: Any) -> Any:
    """Order the members of JSON objects, and lists that stand for sets."""
    if isinstance(reply, list):
        return [with_members_in_order(step, part) for part in reply]
    if not isinstance(reply, str) or reply[:1] not in ("{", "["):
        return reply
    try:
        value = json.loads(reply)
    except ValueError:
        return reply
    # Another order does not make it longer.
    return [len(reply), json.dumps(with_sets_in_order(value), sort_keys=True)]


def with_sets_in_order(value: Any) -> Any:
    """Order the lists that stand for sets, at any depth."""
    if isinstance(value, list):
        return [with_sets_in_order(each) for each in value]
    if not isinstance(value, dict):
        return value
    ordered = {name: with_sets_in_order(each) for name, each in value.items()}
    for name in ("dependents", "dependencies"):
        if isinstance(ordered.get(name), list):
            ordered[name].sort(key=str)
    return ordered


#: Between any two runs, also of one build.
RULES = [
    Rule("positions", "lines and hashes of builds differ", reply=without_positions),
    Rule("rests", "keys end by the server's own clock", reply=without_rests),
    Rule("orders", "tables and sets have none", reply=with_members_in_order),
]


#: Between the earlier build and this one: differences that are meant.
KNOWN: list[Rule] = []


def by_rank(value: Any, ranks: dict[str, str]) -> Any:
    """Put in place of each token how many were drawn up to it, at any depth."""
    if isinstance(value, str):
        return re.sub(r"(?<!\d)\d+(?!\d)", lambda it: ranks.get(it[0], it[0]), value)
    if isinstance(value, redis.ResponseError):
        return redis.ResponseError(by_rank(str(value), ranks))
    if isinstance(value, dict):
        return {by_rank(k, ranks): by_rank(v, ranks) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(by_rank(part, ranks) for part in value)
    return value


#: Milliseconds by which the rests of lifetimes may differ: one side came later.
LATER = 5000


def reduced(part: str, step: Step, value: Any, ranks: dict[str, str]) -> Any:
    """Return a reply, events or keys without what does not count.

    `ranks` are those of the side's tokens: another build may draw other ones.
    """
    value = by_rank(value, ranks)
    for rule in (*KNOWN, *RULES):
        value = getattr(rule, part)(step, value)
    return value
