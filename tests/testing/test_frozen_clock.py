"""The helpers under freezegun and time-machine: times are of the clock that tests see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import freezegun
import pytest
import time_machine
from django.utils import timezone as django_timezone

from django_qless import job, wait_all
from django_qless.exceptions import JobTimeout, ResultNotReady
from django_qless.testing import assert_enqueued, captured_jobs, inline_jobs, run_jobs
from tests.testing.jobs import done, note

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

Freeze = Callable[[datetime], AbstractContextManager[Any]]


@pytest.fixture(autouse=True)
def clean_done() -> Iterator[None]:
    done.clear()
    yield
    done.clear()


@pytest.fixture(params=["freezegun", "time-machine"])
def freeze(request: pytest.FixtureRequest) -> Freeze:
    """Either way to stop the clock at a moment."""
    if request.param == "freezegun":
        return freezegun.freeze_time
    return lambda moment: time_machine.travel(moment, tick=False)


@pytest.fixture(params=[2020, 2050])
def moment(request: pytest.FixtureRequest) -> datetime:
    """A moment before, or after, the time of the server."""
    return datetime(request.param, 1, 2, 3, tzinfo=UTC)


def test_run_at_is_by_the_clock_of_the_test(freeze: Freeze, moment: datetime) -> None:
    with freeze(moment):
        note.using(run_at=django_timezone.now() + HOUR).delay("by run_at")
        note.using(delay=2 * HOUR).delay("by delay")
        assert run_jobs() == []
        assert len(run_jobs(with_scheduled=HOUR * 1.5)) == 1
    with freeze(moment + 2.5 * HOUR):
        assert len(run_jobs()) == 1
    assert done == ["by run_at", "by delay"]


def test_expires_is_by_the_clock_of_the_test(freeze: Freeze, moment: datetime) -> None:
    with freeze(moment):
        for text in ("in time", "too late"):
            note.using(
                expires=django_timezone.now() + 5 * MINUTE, queue=text.replace(" ", "-")
            ).delay(text)
        assert len(run_jobs("in-time")) == 1
    with freeze(moment + 6 * MINUTE):
        assert run_jobs() == []
    assert done == ["in time"]


def test_jobs_that_run_at_once(freeze: Freeze, moment: datetime) -> None:
    with freeze(moment), inline_jobs() as runs:
        note.using(run_at=django_timezone.now() + HOUR).delay("later")
        note.using(expires=django_timezone.now() + 5 * MINUTE).delay("soon")
    assert [run.outcome for run in runs] == ["complete", "complete"]


def test_captured_jobs_have_the_times_of_the_test(
    freeze: Freeze, moment: datetime
) -> None:
    with freeze(moment), captured_jobs() as jobs:
        due = django_timezone.now() + HOUR
        note.using(run_at=due, expires=due + HOUR).delay("later")
        assert_enqueued(note, run_at=due, delay=HOUR)
        assert jobs.only.options["expires"] == 7200
        assert jobs.only.run().outcome == "complete"


def test_times_as_arguments(freeze: Freeze, moment: datetime) -> None:
    with freeze(moment):
        note.delay(django_timezone.now())
        run_jobs()
    assert done == [moment]


def test_waits_end(freeze: Freeze, moment: datetime) -> None:
    with freeze(moment):
        handle = note.using(delay=HOUR).delay("later")
        for wait in (
            lambda: handle.wait(timeout=0.1),
            lambda: handle.result(timeout=0.1),
            lambda: wait_all([handle], timeout=0.1),
            lambda: asyncio.run(handle.await_(timeout=0.1)),
            lambda: asyncio.run(handle.aresult(timeout=0.1)),
        ):
            with pytest.raises(ResultNotReady):
                wait()


@job(timeout=0.1)
def never_ends() -> None:
    while True:
        time.sleep(0.01)


def test_timeout_of_a_job_ends_it(freeze: Freeze, moment: datetime) -> None:
    with freeze(moment):
        never_ends.delay()
        with pytest.raises(JobTimeout):
            run_jobs()
