"""inline_jobs: each job runs where it is enqueued, through the real core."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from django_qless import current_job, entities
from django_qless.exceptions import Fail, Retry
from django_qless.testing import inline_jobs
from django_qless.testing.execution import EndlessJobs
from tests.jobs_app.jobs import leaves_a_mess, whoami
from tests.jobs_app.models import Feed
from tests.testing.jobs import (
    Steps,
    again,
    anote,
    atitle,
    cancels_itself,
    chain,
    creates,
    done,
    gives_up,
    interrupts,
    moves,
    never_succeeds,
    note,
    outer,
    third_time,
    wishes,
)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def test_it_has_run_when_the_call_returns() -> None:
    with inline_jobs() as runs:
        handle = note.delay("x")
        assert done == ["x"]
        assert handle.result() == "x"
        assert handle.refresh().state == "complete"
        assert runs.only.result == "x"
    note.delay("y")
    assert done == ["x"]


def test_the_current_job_is_a_real_one() -> None:
    with inline_jobs():
        handle = whoami.using(tags=["t"]).delay()
    told = handle.result()
    assert told["jid"] == handle.jid
    assert (told["attempt"], told["tags"]) == (1, ["t"])
    assert "looked" in [entry["what"] for entry in handle.refresh().history]
    assert current_job() is None


def test_nested_jobs_run_at_once_too_however_late_they_are_due() -> None:
    with inline_jobs() as runs:
        handle = outer.delay()
    assert done == ["inner", "later", "outer"]
    # The lock was kept, although two hours have passed meanwhile by the core's clock.
    assert handle.refresh().state == "complete"
    assert sorted(run.outcome for run in runs) == ["complete"] * 3


def test_a_job_in_a_full_queue_runs_when_there_is_room() -> None:
    from django_qless import config

    config.set("default-max-concurrency", 1)
    with inline_jobs():
        outer.delay()
        anote.delay("then")
    assert done == ["inner", "later", "outer", "then"]


def test_dependencies_are_kept() -> None:
    with inline_jobs():
        first = note.delay("first")
        note.using(after=[first]).delay("second")
        note.enqueue_many([note.args("third"), note.args("fourth")])
    assert done == ["first", "second", "third", "fourth"]


def test_what_a_job_raises_is_raised_where_it_was_enqueued() -> None:
    with inline_jobs() as runs:
        with pytest.raises(ValueError, match="attempt 1"):
            third_time.delay()
        with pytest.raises(Fail, match="no such file"):
            gives_up.delay()
        with pytest.raises(Retry, match="later"):
            wishes.delay()
        # They have failed: nothing is left that the next call would run again.
        note.delay("x")
    assert done == [1, "x"]
    assert [run.outcome for run in runs] == ["failed", "failed", "failed", "complete"]


def test_retries_where_failures_are_not_raised() -> None:
    with inline_jobs(raise_failures=False) as runs:
        handle = third_time.delay()
        assert handle.result() == "at last"
        assert wishes.delay().result() == "granted"
        assert gives_up.delay().refresh().failure.group == "bad-input"
    assert done == [1, 2, 3]
    assert [run.outcome for run in runs.of(third_time)] == [
        *("retried", "retried", "complete")
    ]
    assert [run.attempt for run in runs.of(third_time)] == [1, 2, 3]
    assert runs.of(gives_up).only.outcome == "failed"


@pytest.mark.django_db
def test_entities_that_fail_are_not_retried() -> None:
    with inline_jobs() as runs, pytest.raises(LookupError, match="never"):
        never_succeeds.push("a", 1)
    assert (runs.only.outcome, runs.only.group) == ("failed", "LookupError")
    record = entities["lost-batches"]["a"]
    assert (record.state, record.dead_count) == ("dead", 1)


def test_a_nested_failure_goes_all_the_way_up() -> None:
    from tests.testing.jobs import nests

    with inline_jobs() as runs, pytest.raises(LookupError):
        nests.delay()
    assert sorted(runs.names) == [
        "tests.testing.jobs.hopeless",
        "tests.testing.jobs.nests",
    ]
    assert [run.outcome for run in runs] == ["failed", "failed"]


def test_ctrl_c_is_never_a_failure_of_a_job() -> None:
    with inline_jobs(raise_failures=False), pytest.raises(KeyboardInterrupt):
        interrupts.delay()


def test_a_job_that_goes_on_elsewhere() -> None:
    with inline_jobs() as runs:
        moves.delay()
        Steps.using(queue="first").delay({"n": 1})
    assert done == ["default", "second", ("first", 1), ("second", 2)]
    assert [run.outcome for run in runs] == ["moved", "complete"] * 2


def test_a_job_that_is_cancelled_while_it_runs() -> None:
    with inline_jobs() as runs:
        cancels_itself.delay()
    assert runs.only.outcome == "lost"


def test_a_job_that_enqueues_itself_for_ever() -> None:
    with inline_jobs(limit=30), pytest.raises(EndlessJobs, match="30 jobs have run"):
        again.delay()
    with inline_jobs(raise_failures=False, limit=30), pytest.raises(EndlessJobs):
        again.delay()


def test_a_chain_longer_than_pythons_stack_is_deep() -> None:
    with inline_jobs() as runs:
        chain.delay(150)
    assert done == list(range(150, 0, -1))
    assert len(runs) == 150


def test_all_threads_run_them_inline() -> None:
    with inline_jobs() as runs:
        thread = threading.Thread(target=note.using(on_commit=False).delay, args=("x",))
        thread.start()
        thread.join()
    assert done == ["x"]
    assert len(runs) == 1


def test_blocks_and_decorators() -> None:
    @inline_jobs()
    def put() -> None:
        note.delay("x")

    put()
    put()
    assert done == ["x", "x"]

    @inline_jobs(raise_failures=False)
    async def aput() -> None:
        await anote.aenqueue("a")
        await third_time.aenqueue()
        note.delay("sync")

    asyncio.run(aput())
    assert done == ["x", "x", "a", 1, 2, 3, "sync"]


class InTestCase(TestCase):
    def test_rows_and_queries(self) -> None:
        feed = Feed.objects.create(title="old")
        with CaptureQueriesContext(connection) as queries, inline_jobs():
            feed.rename.delay("new")
        # Loaded and saved: and the queries of the test are still there to be counted.
        assert [query["sql"].split()[0] for query in queries] == ["SELECT", "UPDATE"]
        feed.refresh_from_db()
        assert feed.title == "new"

    def test_the_tests_transaction_stays_what_it_is(self) -> None:
        depth = len(connection.atomic_blocks)
        with inline_jobs():
            leaves_a_mess.delay()
            creates.delay("kept")
        assert len(connection.atomic_blocks) == depth
        assert [feed.title for feed in Feed.objects.all()] == ["kept"]
        assert translation.get_language() == "en-us"

    async def test_coroutines(self) -> None:
        feed = await Feed.objects.acreate(title="title")
        async with inline_jobs():
            handle = await atitle.aenqueue(feed)
            await feed.rename.aenqueue("new")
        assert await handle.aresult() == "title"
        await feed.arefresh_from_db()
        assert feed.title == "new"

    @inline_jobs()
    def test_a_coroutine_from_plain_code(self) -> None:
        feed = Feed.objects.create(title="title")
        assert atitle.delay(feed).result() == "title"
