"""The ticks of a schedule, those to come and those that were, and the jobs of them."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.admin.components.schedule_table import (
    Tick,
    last_times,
    next_times,
    recent_jobs,
    schedule_rows,
)
from django_qless.core import Client, Schedule, Settlement
from tests.admin.rows import NOW, row, view
from tests.admin.stock import put

HOUR = 3600.0


def schedule(**members: Any) -> Schedule:
    """Return a schedule that ticks every hour, but for these members."""
    usual = {"kind": "interval", "queue": "q", "klass": "k", "data": "{}"}
    more = {"priority": 0, "retries": 0, "tags": (), "count": 3, "missed": "last"}
    times = {"every": HOUR, "last": 36_000.0, "next": 39_600.0}
    return Schedule(**{"id": "x", **usual, **more, **times, **members})


def by_cron(**members: Any) -> Schedule:
    cron = {"kind": "cron", "every": None, "cron": "0 * * * *", "timezone": "UTC"}
    return schedule(**{**cron, **members})


@pytest.mark.parametrize(
    ("following", "words"),
    [
        (None, ""),
        (NOW + 90, "in 1 min 30 s"),
        (NOW + 1, "in 1.0 s"),
        (NOW, "now"),
        (NOW - 90, "now"),
    ],
)
def test_the_time_to_the_next_tick(following: float | None, words: str) -> None:
    [found] = schedule_rows([schedule(next=following)], view())
    assert str(found.next_in) == words
    assert (found.next_at and found.next_at.timestamp()) == following
    assert "/recurring/x/" in found.url
    assert "/queue/q/" in found.queue_url


@pytest.mark.parametrize(
    ("found", "times"),
    [
        (schedule(), [39_600.0 + n * HOUR for n in range(5)]),
        (by_cron(), [39_600.0 + n * HOUR for n in range(5)]),
        (by_cron(timezone=None), [39_600.0 + n * HOUR for n in range(5)]),
        # Where the server does not say when, it is by the clock.
        (by_cron(next=None), [NOW - NOW % HOUR + n * HOUR for n in range(1, 6)]),
        (schedule(next=None), []),
        (schedule(trouble="it is broken"), []),
        (by_cron(trouble="it is broken"), []),
        (by_cron(paused=True), []),
        (by_cron(cron=None), []),
    ],
)
def test_the_next_ticks(found: Schedule, times: list[float]) -> None:
    assert next_times(found, NOW) == times


@pytest.mark.parametrize("make", [schedule, by_cron])
@pytest.mark.parametrize(
    ("count", "most", "number"), [(1, 5, 1), (3, 5, 3), (5, 5, 5), (9, 5, 5), (9, 2, 2)]
)
def test_no_more_ticks_than_there_were(
    make: Any, count: int, most: int, number: int
) -> None:
    times = last_times(make(count=count), most=most)
    assert times == [Tick(36_000.0 - n * HOUR, "", n > 0) for n in range(number)]


def test_ticks_are_those_of_jobs_that_are_there() -> None:
    jobs = [
        row(jid=jid, put=at).brief
        for jid, at in (
            ("x-3", 36_000.4),
            ("x-2", 30_000.9),
            # Those of others, and those that were run at another time.
            ("y-1", 20_000.0),
            ("x@run-7", 21_000.0),
            ("x-2-more", 22_000.0),
            ("x-1", None),
        )
    ]
    assert last_times(schedule(count=9), jobs, most=3) == [
        Tick(36_000, "x-3", False),
        Tick(30_000, "x-2", False),
        # Before those by the present interval.
        Tick(30_000 - HOUR, "", True),
    ]
    # One that is behind the last tick came from an earlier schedule of this name.
    assert len(last_times(schedule(count=1), jobs)) == 2


def test_jobs_of_ticks_and_those_that_were_run_now_the_latest_first(
    qless: Client,
) -> None:
    ids = ["x-1", "x-2", "x@run-1", "x@600:row", "y-1", "x-more", "xx-1"]
    for jid in ids:
        put(qless, "q", jid)
    put(qless, "other", "x@run-9")
    held = qless.settle("w", [], 2, ["q"]).jobs
    assert [job.jid for job in held] == ["x-1", "x-2"]
    end = Settlement("x-1", held[0].token, "complete", (), 0.0)
    qless.settle("w", [end], 0, [])
    found = recent_jobs(qless, schedule(count=2))
    # Complete, running and waiting ones, by when they came into their state.
    assert {brief.jid for brief in found} == {"x-1", "x-2", "x@run-1", "x@600:row"}
    times = [brief.since for brief in found]
    assert times == sorted(times, reverse=True)
    assert recent_jobs(qless, schedule(count=2), most=2) == found[:2]


@pytest.mark.parametrize(
    ("found", "jids"),
    [
        # The ticks of an interval are numbered, those of cron have their times.
        (schedule(count=30), [f"x-{n}" for n in range(30, 10, -1)]),
        (schedule(count=2), ["x-2", "x-1"]),
        (schedule(count=0), []),
        (by_cron(), [f"x@{36_000 - n * 3600}" for n in range(10)]),
        (by_cron(last=None), []),
    ],
)
def test_jobs_of_ticks_are_found_wherever_they_are(
    found: Schedule, jids: list[str], qless: Client
) -> None:
    near = ["x-0", "x-10", "x-31", "x@0", "x@39600"]
    # In a list that is not searched: by their ids alone.
    put(qless, "elsewhere", *dict.fromkeys([*jids, *near]), delay=3600)
    shown = {brief.jid for brief in recent_jobs(qless, found, most=20)}
    assert shown == {*jids}
