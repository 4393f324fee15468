"""Equal builds show no difference; a changed line shows, in few steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.benchmarks.test_against import in_a_checkout
from tests.lua.against import builds
from tests.lua.against.__main__ import Finding, Task, compare
from tests.lua.against.rules import RULES, reduced
from tests.lua.against.side import Step
from tests.lua.operations import Operation

#: Words that every build has, for the protocol demands them; and what takes their place.
PLANTED = {
    "a stored word": ("'timed-out'", "'out-of-time'"),
    "a key": ("'paused_queues'", "'paused'"),
    "an event": (',"event":"put"', ',"event":"puts"'),
    "an error": ("does not exist", "is not there"),
}
SEED = "1"
MOST_STEPS = 12


def findings(
    folder: Path, old: str, new: str, numbers: range, *, keys: bool = False
) -> list[Finding]:
    paths = (
        builds.write(old, folder / "old.lua"),
        builds.write(new, folder / "new.lua"),
    )
    return compare(Task(*paths, "valkey", keys, SEED, numbers, 60))


def test_equal_builds_do_not_differ(tmp_path: Path) -> None:
    text = builds.present()
    assert findings(tmp_path, text, text, range(9), keys=True) == []


@pytest.mark.parametrize("change", PLANTED)
def test_a_changed_line_is_found(tmp_path: Path, change: str) -> None:
    text, (before, after) = builds.present(), PLANTED[change]
    assert before in text, f"plant another change: {before}"
    changed = text.replace(before, after)
    for number in range(60):
        found = findings(tmp_path, text, changed, range(number, number + 1))
        if found:
            break
    steps = found[0].text.split("\n  old: ")[0].splitlines()[1:]
    assert "did not come again" not in found[0].text
    assert len(steps) <= MOST_STEPS, "\n".join(steps)


@in_a_checkout
def test_an_earlier_build_is_made_from_its_modules() -> None:
    assert builds.earlier("HEAD").startswith("-- Generated from lua/")


@in_a_checkout
def test_an_unknown_commit_is_named() -> None:
    with pytest.raises(ValueError, match="no-such"):
        builds.earlier("no-such")


def step(command: str) -> Step:
    return Step(Operation(True, 5.0, command, ()), "function")


@pytest.mark.parametrize(
    ("command", "one", "other"),
    [
        (
            "put",
            redis.ResponseError("user_function:12: x script: on @user_function:3."),
            redis.ResponseError("user_function:13: x script: on @user_function:4."),
        ),
        ("get", '{"a":1,"b":[]}', '{"b":[],"a":1}'),
        ("get", '{"dependents":["a","b"]}', '{"dependents":["b","a"]}'),
        ("multiget", '[{"returned":5.5}]', '[{"returned":5.25}]'),
        ("schedule.due", ["4.1", "5", 0, 0, []], ["4.0", "5", 0, 0, []]),
        ("audit", '{"cursor":"key:1","checked":4}', '{"cursor":"key:2","checked":4}'),
    ],
)
def test_what_differs_by_nature_does_not_count(
    command: str, one: object, other: object
) -> None:
    assert len(RULES) == 4
    assert one != other
    assert reduced("reply", step(command), one) == reduced(
        "reply", step(command), other
    )


@pytest.mark.parametrize(
    ("command", "one", "other"),
    [
        ("get", '{"a":1}', '{"a":1.0}'),
        ("get", '{"a":{}}', '{"a":[]}'),
        ("get", '{"tags":["a","b"]}', '{"tags":["b","a"]}'),
        ("result", '{"a": 1}', '{"a":1}'),
        ("put", redis.ResponseError("BADARG x"), redis.ResponseError("BADARG y")),
        ("put", redis.ResponseError("jid"), "jid"),
        ("schedule.due", ["4.1", "5", 1, 0, []], ["4.0", "5", 1, 0, []]),
    ],
)
def test_all_else_counts(command: str, one: object, other: object) -> None:
    assert reduced("reply", step(command), one) != reduced(
        "reply", step(command), other
    )
