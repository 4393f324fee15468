"""What expires by itself: how long each key is kept, and the longest wait there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.keyed import Keyed, settlement

DAY = 86400
SLOW = 30
"""Seconds that a test may take between a key's making and a look at it."""


def complete(keyed: Keyed, *args: Any) -> None:
    """Run a job to its end, with statistics and counters."""
    keyed.put("run")
    ends = [settlement("run", keyed.token("run"), "complete", *args)]
    keyed.settle(ends, now=5)
    keyed.call("beat", "worker", "{}", 0, now=6)


def finish_workflow(keyed: Keyed) -> None:
    job = ("a", "queue", "k", "{}", 0, 1, "workflow", "f")
    keyed.call("workflow.put", "f", "w", "{}", *job, now=0)
    keyed.settle([settlement("a", keyed.token("a"), "complete")])


#: What is made, the key, and how many seconds it is kept.
KEPT: dict[str, tuple[Callable[[Keyed], object], str, int]] = {
    "counters of a queue": (complete, "m:queue:0:completed", 26 * 3600),
    "counters of the namespace": (complete, "m::0:completed", 26 * 3600),
    "how long jobs ran": (complete, "s:run:0:queue", 31 * DAY),
    "how long jobs waited": (complete, "s:wait:0:queue", 31 * DAY),
    "a result": (lambda k: complete(k, "[1]", 500), "result:run", 500),
    "the longest result": (lambda k: complete(k, "[1]", 10**12), "result:run", 2**31),
    "a key for a period": (
        lambda k: k.put("jid", unique="key", unique_until=500), "unique:key", 500),
    "the longest period": (
        lambda k: k.put("jid", unique="key", unique_until=10**12), "unique:key", 2**31),
    "a complete workflow": (finish_workflow, "workflow:f", 7 * DAY),
    "its jobs": (finish_workflow, "workflow:f:jobs", 7 * DAY),
}  # fmt: skip


@pytest.mark.parametrize("what", KEPT)
def test_how_long_it_is_kept(keyed: Keyed, what: str) -> None:
    make, name, seconds = KEPT[what]
    make(keyed)
    assert seconds - SLOW < keyed.server.ttl(f"ql:{name}") <= seconds


def idle(keyed: Keyed) -> None:
    keyed.settle([], 1, ["other", "o*"], worker="some-name", wait=90)


def order(keyed: Keyed) -> None:
    keyed.call("beat", "some-name", '{"pid":1}', 0, now=0)
    keyed.call("order", "some-name", "quiet", now=0)


def keep_detached(keyed: Keyed) -> None:
    token = keyed.job("run")["token"]
    keyed.call("detached.keep", "w", "run", token, "{}", now=0)


def wait_for(keyed: Keyed) -> None:
    keyed.call("await", "me", 200, "job", "run", now=0)


def lead(keyed: Keyed) -> None:
    keyed.call("schedule.due", "some-name", 10, now=0)


@pytest.mark.parametrize("make", [idle, order, keep_detached, wait_for, lead])
def test_what_concerns_workers_and_waiters_expires_within_a_day(
    keyed: Keyed, make: Callable[[Keyed], None]
) -> None:
    keyed.put("run")
    keyed.take(worker="some-name")
    keyed.call("beat", "w", "", 0, now=0)  # writes what is buffered of statistics
    before = set(keyed.server.scan_iter())
    make(keyed)
    for name in set(keyed.server.scan_iter()) - before:
        assert 0 < keyed.server.ttl(name) <= DAY or name == "ql:w:w:jobs", name


@pytest.mark.parametrize(("wait", "seconds"), [(10**9, DAY), (-5, 0)])
def test_no_wait_is_longer_than_a_day(keyed: Keyed, wait: int, seconds: int) -> None:
    rest = keyed.settle([], 1, wait=wait).rest
    assert float(rest[0]) == pytest.approx(seconds, abs=0.01)


def test_a_waiter_is_woken_until_its_own_time_is_over(keyed: Keyed) -> None:
    keyed.put("jid")
    token = keyed.token("jid")
    keys = {
        waiter: keyed.call("await", waiter, seconds, "job", "jid", now=0)[0]
        for waiter, seconds in (("one", 100), ("two", 500), ("three", 50))
    }
    keyed.settle([settlement("jid", token, "complete")], now=200)
    woken = [name for name, key in keys.items() if keyed.server.exists(key)]
    assert woken == ["two"]
