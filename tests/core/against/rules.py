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


def without_inner_lists(step: Step, reply: Any) -> Any:
    """Show what settle tells of jobs and refusals one after the other, as it once was."""
    if step.operation.command != "settle" or not isinstance(reply, list):
        return reply
    return [flat(part) for part in reply]


def flat(value: Any) -> Any:
    """Return a list with what is in its lists."""
    if not isinstance(value, list):
        return value
    return [
        one for each in value for one in (each if isinstance(each, list) else [each])
    ]


def without_zeros_of_times(_: Step, reply: Any) -> Any:
    """Take off the zeros at the end of the server's times."""
    if isinstance(reply, list):
        return [without_zeros_of_times(_, part) for part in reply]
    if not isinstance(reply, str):
        return reply
    text = re.sub(r"(\d\.\d{6})0{14}(?!\d)", r"\1", reply)
    return re.sub(r'"(\d+)\.000"', r'"\1"', text)


#: Fields with which times were once set back with the server's clock.
OF_REPAIR = {"leap", "shifts", "mended", "at", "fixed", "shifted"}


def without_repair(step: Step, reply: Any) -> Any:
    """Take out whether schedules are to be mended, and what meta said of it."""
    command = step.operation.command
    if command == "schedule.due" and isinstance(reply, list) and len(reply) == 5:
        return [*reply[:3], reply[4]]
    if command == "meta" and isinstance(reply, str):
        meta = json.loads(reply)
        return json.dumps({name: meta[name] for name in meta.keys() - OF_REPAIR})
    return reply


def without_fields_of_repair(_: Step, keys: Snapshot) -> Snapshot:
    """Take out what served to set times back, and replies, whose length differs."""
    found = {}
    for name, (kind, content, expiry) in keys.items():
        if kind == "hash":
            content = {
                field: value
                for field, value in content.items()
                if field not in OF_REPAIR and not field.startswith("reply:")
            }
        found[name] = kind, content, expiry
    return found


def without_empty_text(_: Step, reply: Any) -> Any:
    """Take out the words for a value that is empty, which once were missing."""
    if not isinstance(reply, redis.ResponseError):
        return reply
    return redis.ResponseError(str(reply).replace(", not an empty text", ", not "))


def without_gone(step: Step, reply: Any) -> Any:
    """Take out what results.gone answers, which the previous build does not know."""
    return None if step.operation.command == "results.gone" else reply


def without_open(_: Step, reply: Any) -> Any:
    """Take out of jobs whether more may be added to what they wait for."""
    if not isinstance(reply, str):
        return reply
    return reply.replace('"open":false,', "")


def without_refuse(_: Step, reply: Any) -> Any:
    """Take out of errors that conflict once might be refuse, and the code for that."""
    if not isinstance(reply, redis.ResponseError):
        return reply
    text = re.sub(r'^DUPLICATE "[^"]*"', "STATE", str(reply))
    return redis.ResponseError(text.replace("replace, refuse or", "replace or"))


#: Between the previous build and this one: differences that users are told of.
KNOWN: list[Rule] = [
    Rule("zeros", "times in records are shorter", reply=without_zeros_of_times),
    Rule("lists", "a list for each job and refusal", reply=without_inner_lists),
    Rule(
        "repair",
        "times are not set back",
        reply=without_repair,
        keys=without_fields_of_repair,
    ),
    Rule("words", "errors say that a value is empty", reply=without_empty_text),
    Rule("gone", "a command of other results", reply=without_gone),
    Rule("open", "dependencies come with the job", reply=without_open),
    Rule("refuse", "handles say whether they are new", reply=without_refuse),
]


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
