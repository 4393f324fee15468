"""run_jobs: the queues are drained in this process, through the real core."""

from __future__ import annotations

import asyncio
import datetime as dt
import time

import pytest
from django.test import TestCase, override_settings
from django.utils import timezone

from django_qless import queues, testing
from django_qless.conf.connections import connections
from django_qless.exceptions import Fail
from django_qless.testing import run_jobs
from django_qless.testing.execution import EndlessJobs, UnknownJob
from django_qless.testing.runner import arun_jobs
from tests.jobs_app.models import Feed
from tests.testing.jobs import (
    again,
    asks_again,
    chain,
    done,
    gives_up,
    hopeless,
    interrupts,
    moves,
    note,
    outer,
    third_time,
    travels_after_its_end,
    wishes,
)

HOUR = dt.timedelta(hours=1)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def test_what_has_been_enqueued_runs_and_so_does_what_that_enqueues() -> None:
    handle = outer.delay()
    runs = run_jobs()
    assert done == ["outer", "inner"]
    assert runs.names == ["tests.testing.jobs.outer", "tests.testing.jobs.note"]
    assert handle.refresh().state == "complete"
    run = runs.of(note, "inner").only
    assert (run.outcome, run.attempt, run.result) == ("complete", 1, "inner")
    assert (run.queue, run.args, run.kwargs) == ("notes", ["inner"], {})
    assert repr(run) == "<complete <tests.testing.jobs.note('inner') in 'notes'>>"
    assert run_jobs() == []
    assert repr(run_jobs()) == "<0 runs:\n    none>"


def test_only_what_is_ready_now() -> None:
    outer.delay()
    again.delay()
    runs = run_jobs(until_empty=False)
    assert runs.names == ["tests.testing.jobs.outer", "tests.testing.jobs.again"]
    assert queues["default"].counts().waiting == 1
    assert queues["notes"].counts().waiting == 1


def test_some_queues() -> None:
    outer.delay()
    note.using(queue="mail").delay("mail")
    note.using(queue="mail-bulk").delay("bulk")
    assert run_jobs("nosuch") == []
    assert len(run_jobs("mail*", with_scheduled=True)) == 2
    assert done == ["mail", "bulk"]
    assert len(run_jobs("default", "nosuch")) == 1


def test_another_alias() -> None:
    with override_settings(QLESS={"default": {}, "other": {}}):
        note.using(alias="other").delay("x")
        assert run_jobs(alias="default") == []
        assert len(run_jobs(alias="other")) == 1


def test_time_is_moved_on_for_what_is_scheduled() -> None:
    for hours in (3, 1, 2):
        note.using(delay=hours * HOUR).delay(hours)
    assert run_jobs() == []
    assert len(run_jobs(with_scheduled=HOUR * 1.5)) == 1
    assert len(run_jobs(with_scheduled=timezone.now() + HOUR * 2.5)) == 1
    assert len(run_jobs(with_scheduled=2.9 * 3600)) == 0
    assert len(run_jobs(with_scheduled=True)) == 1
    assert done == [1, 2, 3]
    # And back: it was moved only while jobs ran.
    assert float(connections["default"].meta()["now"]) < time.time() + 60
    assert note.using(delay=60).delay("x").refresh().state == "scheduled"


@pytest.mark.parametrize("span", ["soon", dt.datetime(2030, 1, 1)])
def test_spans_that_are_none(span) -> None:
    with pytest.raises((TypeError, ValueError), match="with_scheduled"):
        run_jobs(with_scheduled=span)


def test_a_delay_counts_from_the_time_to_which_it_was_moved() -> None:
    chain.using(delay=HOUR).delay(2)
    assert len(run_jobs(with_scheduled=HOUR * 1.5)) == 1
    assert len(run_jobs(with_scheduled=HOUR * 2.5)) == 1
    assert done == [2, 1]


def test_recurring_jobs_tick_up_to_the_end_of_a_span() -> None:
    client = connections["default"]
    data = note.args("tick").data
    client.schedule_set("each", "notes", note.name, data, every=60, missed="all")
    client.schedule_set("daily", "notes", note.name, data, cron="0 6 * * *")
    run_jobs()
    begin = client.meta()["now"]
    done.clear()
    assert run_jobs("nosuch", with_scheduled=HOUR) == []
    runs = run_jobs(with_scheduled=HOUR)
    assert len([run for run in runs if run.jid.startswith("each@")]) == 60
    client.schedule_remove("each")
    runs += run_jobs(with_scheduled=dt.timedelta(days=7))
    ticks = [run.jid for run in runs if run.jid.startswith("daily@")]
    assert len(ticks) == len(set(ticks)) == 7
    assert int(ticks[0].partition("@")[2]) > float(begin)


def test_a_paused_queue_is_left_alone() -> None:
    note.using(delay=60).delay("x")
    queues["notes"].pause()
    assert run_jobs(with_scheduled=True) == []
    assert run_jobs(with_scheduled=HOUR) == []


def test_a_failure_is_raised_when_the_job_is_settled() -> None:
    handle = hopeless.delay()
    with pytest.raises(LookupError, match="never"):
        run_jobs()
    assert handle.refresh().failure.group == "LookupError"
    gives_up.delay()
    with pytest.raises(Fail, match="no such file"):
        run_jobs()


def test_failures_may_be_looked_at_instead() -> None:
    hopeless.delay()
    third_time.delay()
    note.delay("x")
    runs = run_jobs(raise_failures=False)
    [failed] = runs.ended("failed")
    assert (failed.group, type(failed.exception)) == ("LookupError", LookupError)
    assert "raise LookupError" in failed.message
    assert repr(failed) == (
        "<failed in group 'LookupError' <tests.testing.jobs.hopeless() in 'default'>: "
        "LookupError('never')>"
    )
    assert runs.ended("retried").only.exception.args == ("attempt 1",)
    assert len(runs.failures) == 2


def test_a_retry_that_nobody_runs_here_is_a_failure() -> None:
    handle = third_time.delay()
    with pytest.raises(ValueError, match="attempt 1"):
        run_jobs()
    assert handle.refresh().state == "scheduled"
    runs = run_jobs(with_scheduled=True)
    assert [run.attempt for run in runs] == [2, 3]
    assert handle.result() == "at last"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_retry_runs_when_its_backoff_is_over_and_not_before(is_async: bool) -> None:
    def run(seconds: float) -> list[int]:
        if is_async:
            return [
                run.attempt for run in asyncio.run(arun_jobs(with_scheduled=seconds))
            ]
        return [run.attempt for run in run_jobs(with_scheduled=seconds)]

    third_time.delay()
    assert run(1) == [1]
    assert run_jobs() == []
    assert run(3500) == []
    assert run(3602) == [2]
    # Nor did the run before move the clock: the second wait began when time was there.
    assert run(7100) == []
    assert run(7210) == [3]
    assert done == [1, 2, 3]


def test_a_retry_that_the_job_wishes_is_none() -> None:
    wishes.delay()
    assert run_jobs().only.outcome == "retried"
    assert run_jobs() == []
    assert run_jobs(with_scheduled=True).only.result == "granted"


def test_the_last_attempt_that_fails_is_raised() -> None:
    third_time.using(retries=1).delay()
    with pytest.raises(ValueError, match="attempt 2"):
        run_jobs(with_scheduled=True)


def test_jobs_for_ever_come_to_an_end() -> None:
    again.delay()
    with pytest.raises(EndlessJobs, match=r"7 jobs have run(.|\n)*jobs.again\(\)"):
        run_jobs(limit=7)
    assert queues["default"].counts().waiting == 1
    assert queues["default"].counts().running == 0


@pytest.mark.django_db
def test_entities_for_ever_come_to_an_end() -> None:
    asks_again.push_many([("a", 1), ("b", 1)])
    words = r"4 jobs have run, the last of them(.|\n)*asks_again"
    with pytest.raises(EndlessJobs, match=words):
        run_jobs(limit=4)
    counts = queues["batches"].counts()
    assert (counts.running, counts.waiting) == (0, 2)


def test_a_name_that_this_process_does_not_know() -> None:
    connections["default"].put("", "q", "strange", "no.such.job", "{}")
    with pytest.raises(UnknownJob, match=r"No job is called 'no\.such\.job'"):
        run_jobs()
    assert run_jobs(raise_failures=False, with_scheduled=60).ended("unknown")


def test_ctrl_c_is_never_a_failure_of_a_job() -> None:
    interrupts.delay()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(raise_failures=False)


def test_a_job_without_its_lock_may_move_time() -> None:
    note.using(delay=30).delay("x")
    travels_after_its_end.delay()
    assert run_jobs("default").only.outcome == "lost"
    assert done == ["x", 1]


def test_very_many_schedules_tick() -> None:
    for number in range(300):
        note.recur(number, cron="0 * * * *", key=str(number))
    assert len(run_jobs(with_scheduled=HOUR)) == 300
    assert sorted(done) == list(range(300))


def test_the_helpers_are_listed() -> None:
    assert set(testing.__all__) <= set(dir(testing))
    assert dir(testing) == sorted(dir(testing))


def test_a_pipeline() -> None:
    moves.delay()
    assert [run.outcome for run in run_jobs()] == ["moved", "complete"]


def test_dependents_run_after_what_they_wait_for() -> None:
    first = note.using(delay=HOUR).delay("first")
    note.using(after=[first]).delay("second")
    assert run_jobs() == []
    run_jobs(with_scheduled=True)
    assert done == ["first", "second"]


def test_from_asynchronous_code() -> None:
    async def put_and_run() -> int:
        await note.aenqueue("x")
        return len(await arun_jobs("notes"))

    assert asyncio.run(put_and_run()) == 1


class InTestCase(TestCase):
    def test_rows(self) -> None:
        feed = Feed.objects.create(title="old")
        feed.rename.delay("new")
        assert run_jobs().only.result == "new"
        feed.refresh_from_db()
        assert feed.title == "new"

    async def test_coroutines(self) -> None:
        feed = await Feed.objects.acreate(title="old")
        await feed.rename.aenqueue("new")
        await arun_jobs()
        await feed.arefresh_from_db()
        assert feed.title == "new"
