"""Waiting for the end of jobs: each waiter blocks on a list, which the end feeds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement


def look(
    keyed: Keyed, *jids: str, waiter: str = "me", now: Any = 0, seconds: Any = 10
) -> list[str]:
    """Wait for these jobs; return the states of those that have ended."""
    _, *states = keyed.call("await", waiter, seconds, "job", *jids, now=now)
    return list(states)


def told(keyed: Keyed, waiter: str = "me") -> int:
    """Return how many times the waiter was told, and forget it."""
    [key, *_] = keyed.call("await", waiter, 0, "job", "nosuch", now=0)
    times = keyed.server.llen(key)
    keyed.server.delete(key)
    return int(times)


def end(keyed: Keyed, jid: str, *verb: Any, now: Any = 0) -> None:
    """End a job, which runs or is the next in the queue."""
    token = keyed.job(jid, now)["token"] or keyed.token(jid, now)
    assert not keyed.settle([settlement(jid, token, *verb)], now=now).refused


def test_the_first_that_has_not_ended_is_waited_for(keyed: Keyed) -> None:
    for jid in ("a", "b"):
        keyed.put(jid)
    assert look(keyed, "gone", "a", "b") == [""]
    assert told(keyed) == 0
    end(keyed, "a", "complete")
    assert told(keyed) == 1
    assert look(keyed, "a", "b") == ["complete"]
    end(keyed, "b", "complete")
    assert told(keyed) == 1


ENDS: dict[str, tuple[Any, ...]] = {
    "settle complete": ("complete",),
    "settle fail": ("fail", "group", "message"),
    "settle crash": ("crash", 0, "worker-crash", "message"),
    "complete": ("a", "TOKEN", "queue", "1"),
    "fail": ("a", "TOKEN", "group", "message"),
    "retry": ("a", "queue", "TOKEN"),
    "cancel": ("a",),
    "old complete": ("a", "worker", "queue", "{}"),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_end_is_told(keyed: Keyed, name: str) -> None:
    keyed.put("a", retries=0)
    token = keyed.token("a")
    look(keyed, "a")
    how, _, command = name.rpartition(" ")
    args = [token if part == "TOKEN" else part for part in ENDS[name]]
    if how == "settle":
        end(keyed, "a", *args)
    elif how == "old":
        keyed.core.old(command, 500, *args)  # by a clock that is ahead
    else:
        keyed.call(command, *args, now=0)
    assert told(keyed) == 1


def test_exhausted_retries_are_told(keyed: Keyed) -> None:
    keyed.put("a", retries=0)
    keyed.take()
    look(keyed, "a", seconds=1000)
    keyed.take(now=61)  # The first loss of the lock is a notice.
    assert told(keyed) == 0
    keyed.take(now=72)
    assert keyed.job("a", 72)["state"] == "failed"
    assert told(keyed) == 1


@pytest.mark.parametrize(
    "verb", [("retry", 0, "", "m"), ("release", 0), ("move", "queue", 0)]
)
def test_a_run_that_goes_on_is_no_end(keyed: Keyed, verb: tuple[Any, ...]) -> None:
    keyed.put("a")
    look(keyed, "a")
    end(keyed, "a", *verb)
    assert told(keyed) == 0
    end(keyed, "a", "complete", now=1)
    assert told(keyed) == 1


@pytest.mark.parametrize(("after", "told"), [(14.9, 1), (15.1, 0)])
def test_a_waiter_has_five_seconds_more(keyed: Keyed, after: float, told: int) -> None:
    """Between the answer and the moment in which a client really blocks time goes by."""
    keyed.put("jid")
    token = keyed.token("jid")
    [key] = keyed.call("await", "me", 10, "job", "jid", now=0)
    keyed.settle([settlement("jid", token, "complete")], now=after)
    assert keyed.server.llen(key) == told


def test_a_waiter_whose_time_is_over_is_not_woken(keyed: Keyed) -> None:
    keyed.put("a")
    look(keyed, "a", waiter="gone", seconds=1)
    look(keyed, "a", waiter="here", seconds=100)
    end(keyed, "a", "complete", now=50)
    assert (told(keyed, "gone"), told(keyed, "here")) == (0, 1)


def test_zero_seconds_register_no_waiter(keyed: Keyed) -> None:
    keyed.put("a")
    keyed.put("b")
    end(keyed, "a", "complete")
    assert look(keyed, "b", "a", "c", seconds=0) == ["running", "complete", ""]
    end(keyed, "b", "complete", now=100)
    assert told(keyed) == 0


def test_a_wait_does_not_hurt_the_record(keyed: Keyed) -> None:
    keyed.put("a")
    before = keyed.job("a")
    look(keyed, "a")
    assert keyed.job("a") == before


@pytest.mark.parametrize(
    "args",
    [
        (), ("me",), ("m e", 1, "job", "a"), ("x" * 129, 1, "job", "a"), ("me", 1),
        ("me", "soon", "job", "a"), ("me", 1, "jobs", "a"), ("me", 1, "job"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(keyed: Keyed, args: tuple[Any, ...]) -> None:
    assert keyed.refusal("await", *args).startswith("BADARG ")


def test_every_waiter_is_woken(keyed: Keyed) -> None:
    keyed.put("a")
    for n in range(50):
        look(keyed, "a", waiter=f"w{n}")
    end(keyed, "a", "complete")
    assert [told(keyed, f"w{n}") for n in range(50)] == [1] * 50
