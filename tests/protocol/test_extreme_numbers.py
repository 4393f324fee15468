"""The largest and the smallest numbers together: a queue goes on, and can be looked at.

Each alone is among the nonsense of test_bad_arguments; sums and quotients of two of them
are what a sorted set and JSON cannot hold.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import redis

from tests.core.caller import Core
from tests.core.keyed import Keyed
from tests.core.keyspace import digest, snapshot

LARGE = ["1e300", "-1e300"]
BEYOND = ["1.7e308", "-1.7e308", "1.0001e300"]
SMALL = ["0", "5e-324"]
Calls = list[tuple[Any, ...]]


@pytest.mark.parametrize("number", BEYOND)
def test_numbers_beyond_1e300_are_refused(core: Core, number: str) -> None:
    core.put("jid")
    core.pop()
    before = snapshot(core.server)
    for call in (
        ("put", 0, "w", "queue", "new", "klass", "{}", number),
        ("put", number, "w", "queue", "new", "klass", "{}", 0),
        ("put", 0, "w", "queue", "new", "klass", "{}", 0, "priority", number),
        ("priority", 0, "jid", number),
        ("retry", 0, "jid", "queue", "worker", number),
        ("recur", 0, "queue", "new", "klass", "{}", "interval", 60, number),
        ("recur", 0, "queue", "new", "klass", "{}", "interval", "60", 0, "backlog", number),
        ("config.set", 0, "heartbeat", number),
    ):  # fmt: skip
        assert "must be a number between -1e300 and 1e300" in core.error(*call)
    assert snapshot(core.server) == before


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_numbers_read_as_infinity_are_refused(core: Core, number: str) -> None:
    core.put("jid")
    assert "must be a finite decimal number" in core.error("priority", 0, "jid", number)


def go_through(core: Core, calls: Calls, *, keyed: bool = False) -> None:
    """Send the calls: with KEYS the time comes last, without it is the second."""
    for call in calls:
        before, refusal = digest(core.server), ""
        try:
            if keyed:
                core.ours(*call[:-1], now=call[-1])
            else:
                core.old(*call)
        except redis.ResponseError as error:
            refusal = str(error)
        if refusal:
            assert "does not exist" in refusal or "not currently" in refusal, call
            assert digest(core.server) == before, (call, refusal)


@pytest.mark.parametrize("now", [*LARGE, "0"])
@pytest.mark.parametrize("offset", [*LARGE, "-1e9", "0"])
def test_recurring_jobs_with_extreme_numbers(core: Core, now: str, offset: str) -> None:
    for interval, backlog in itertools.product(
        ["60", "1e300", "5e-324"], ["0", "3", "5e-324"]
    ):
        core.server.flushall()
        pairs = ("backlog", backlog)
        go_through(core, [
            ("recur", now, "queue", "c", "k", "{}", "interval", interval, offset, *pairs),
            ("peek", 10, "queue", 5),
            ("pop", 20, "queue", "w", 5),
            ("recur.update", 5, "c", "interval", "1e300"),
            ("pop", "1e300", "queue", "w", 5),
            ("recur.update", 5, "c", "interval", 1),
            ("pop", 30, "queue", "w", 5),
            ("recur.get", 30, "c"),
        ])  # fmt: skip
        go_through(core, [
            ("schedule.list", 40), ("schedule.pause", "c", 40),
            ("schedule.resume", "c", 50), ("schedule.list", 50),
            ("schedules.next", 5, 50), ("schedule.list", 60),
        ], keyed=True)  # fmt: skip


@pytest.mark.parametrize("now", [*LARGE, *SMALL])
@pytest.mark.parametrize("delay", [*LARGE, *SMALL])
def test_delays_and_priorities_with_extreme_numbers(
    core: Core, now: str, delay: str
) -> None:
    for priority, later in itertools.product([*LARGE, "5e-324"], repeat=2):
        core.server.flushall()
        go_through(core, [
            ("put", now, "w", "queue", "jid", "k", "{}", delay, "priority", priority),
            ("priority", later, "jid", "-1e300"),
            ("priority", later, "jid", "1e300"),
            ("pop", later, "queue", "w", 5),
            ("heartbeat", later, "jid", "w"),
            ("retry", now, "jid", "queue", "w", delay),
            ("pop", 10, "queue", "w", 5),
            ("pop", "1e300", "queue", "w", 5),
            ("complete", now, "jid", "w", "queue", "{}"),
        ])  # fmt: skip


@pytest.mark.parametrize("offset", [*LARGE, *SMALL])
@pytest.mark.parametrize("interval", ["60", "1e300", "1"])
def test_schedules(keyed: Keyed, interval: str, offset: str) -> None:
    made = ("queue", "klass", "{}", "interval", interval, "offset", offset)
    for other, further in itertools.product(["60", "1e300"], [*LARGE, "0"]):
        keyed.server.flushall()
        go_through(keyed.core, [
            ("schedule.set", "s", *made, "missed", "all", 5),
            ("schedule.update", "s", "interval", other, "offset", further, 6),
            ("schedule.tick", "s", offset, "", "", "1e300", "", 7),
            ("settle", "w", 0, 5, 1, "queue", 7),
            ("schedule.pause", "s", 8),
            ("schedule.resume", "s", 9),
            ("schedule.update", "s", "interval", interval, 9),
            ("schedule.run", "s", 9),
            ("settle", "w", 0, 5, 1, "queue", 10**6),
            ("schedule.list", 5),
            ("schedules.next", 5, 5),
        ], keyed=True)  # fmt: skip
