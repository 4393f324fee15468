"""The helpers with all that may be enqueued beside single jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_qless import queues, recurring
from django_qless.testing import (
    assert_enqueued,
    assert_enqueued_count,
    assert_not_enqueued,
    captured_jobs,
    inline_jobs,
    run_jobs,
)
from django_qless.workflows.builder import Workflow, batch, workflow
from tests.jobs_app.models import Feed
from tests.tasks import installed, work
from tests.testing.jobs import done, gathers, hopeless, note, spawns

# As an option of a backend of Tasks.
COMMIT = {"enqueue_on_commit": True}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def flow_of_three() -> Workflow:
    flow = workflow("three")
    first = flow.add(note.args("first"))
    second = flow.add(note.args("second"), after=[first])
    flow.add(gathers.args(), after=[first, second])
    return flow


def test_a_workflow_inline() -> None:
    with inline_jobs():
        handle = flow_of_three().enqueue()
    assert done == ["first", "second", ["first", "second"]]
    assert handle.refresh().state == "complete"


def test_a_workflow_in_a_transaction() -> None:
    with inline_jobs(), transaction.atomic():
        flow_of_three().enqueue()
        assert done == []
    assert len(done) == 3


def test_a_workflow_captured() -> None:
    with captured_jobs() as jobs:
        flow_of_three().enqueue()
    assert [job.args for job in jobs] == [["first"], ["second"], []]
    assert jobs[1].dependencies == [jobs[0].jid]
    assert_enqueued(note, "second", after=jobs[0].handle)
    assert jobs.of(note).run().names == [note.name] * 2


def test_a_workflow_drained() -> None:
    handle = flow_of_three().enqueue()
    assert_enqueued_count(3)
    assert len(run_jobs()) == 3
    assert handle.refresh().progress.complete == 3


def test_a_batch_whose_jobs_fail() -> None:
    with inline_jobs(raise_failures=False):
        batch(
            [note.args("one"), hopeless.args()],
            on_success=note.args("success"),
            on_complete=note.args("complete"),
        ).enqueue()
    assert done == ["one", "complete"]


def test_what_a_job_spawns() -> None:
    with inline_jobs():
        parent = spawns.delay()
        note.using(after=[parent]).delay("after")
    assert done == ["spawned", "spawns", "after"]


def test_what_a_captured_job_spawns() -> None:
    with captured_jobs() as jobs:
        spawns.delay()
        jobs.run()
    assert jobs.of(note).only.args == ["spawned"]
    jobs[0].run()
    assert queues["notes"].counts().waiting == 1


def test_what_is_unique_is_the_cores_to_judge() -> None:
    once = note.using(unique="key")
    kept = once.delay("first")
    assert once.delay("second").jid == kept.jid
    assert_enqueued(note, times=1)
    assert_not_enqueued(note, "second")
    assert len(run_jobs()) == 1
    assert done == ["first"]
    with captured_jobs() as jobs:
        once.delay("captured")
    assert jobs.only.unique


def test_what_replaces_and_is_pushed_back() -> None:
    for text in ("first", "second", "third"):
        note.using(debounce=60).delay(text, mark="x")
    debounced = note.using(unique="key", debounce=60)
    for text in ("a", "b", "c"):
        debounced.delay(text)
    assert_enqueued(note, "c", times=1)
    assert_not_enqueued(note, "a")
    assert_not_enqueued(note, "b")
    assert_enqueued_count(4)
    assert len(run_jobs(with_scheduled=True)) == 4


def test_what_expires() -> None:
    first = note.using(delay=3600).delay("first")
    handle = note.using(expires=60, after=[first]).delay("late")
    assert len(run_jobs(with_scheduled=True)) == 1
    assert handle.refresh().failure.group == "expired"


def test_schedules() -> None:
    with captured_jobs() as jobs:
        note.recur("captured", every=60)
    assert jobs == []
    assert list(recurring) == []
    note.recur("tick", every=dt.timedelta(minutes=1))
    assert_not_enqueued()
    run_jobs(with_scheduled=dt.timedelta(minutes=3))
    assert_enqueued(note, "tick", queue="notes", times=len(done))
    assert set(done) == {"tick"}
    assert len(done) in (3, 4)
    note.unrecur()
    assert run_jobs(with_scheduled=dt.timedelta(minutes=3)) == []


def test_a_cron_schedule_that_no_worker_has_seen_yet() -> None:
    note.recur("daily", cron="0 6 * * *")
    assert run_jobs() == []
    run_jobs(with_scheduled=dt.timedelta(days=2))
    assert done == ["daily", "daily"]


def test_schedules_of_rows() -> None:
    feed = Feed.objects.create(title="old")
    feed.rename.recur("new", every=60)
    run_jobs(with_scheduled=60)
    feed.refresh_from_db()
    assert feed.title == "new"


class TestTasks:
    """Django's Tasks, whose backend enqueues jobs."""

    @pytest.fixture(autouse=True)
    def _tasks(self) -> Iterator[None]:
        work.noted.clear()
        with override_settings(TASKS=installed.TASKS):
            yield

    def test_captured(self) -> None:
        signaled = []

        def receive(task_result: Any, **kwargs: Any) -> None:
            signaled.append(task_result.id)

        installed.signals.task_enqueued.connect(receive)
        with captured_jobs() as jobs:
            result = work.add.enqueue(1, b=2)
            work.with_context.enqueue("x")
        assert jobs.names == ["tests.tasks.work.add", "tests.tasks.work.with_context"]
        assert jobs[0].jid == result.id == signaled[0]
        assert (jobs[0].args, jobs[0].kwargs) == ([1], {"b": 2})
        assert_enqueued(work.add, 1, 2, times=1)
        assert_enqueued(work.with_context, "x")
        assert_enqueued(work.with_context, text="x")
        assert_not_enqueued(work.add, 2)
        assert jobs[0].run().result == 3

    def test_inline(self) -> None:
        with inline_jobs():
            result = work.aadd.enqueue(1, 2)
            result.refresh()
            assert result.return_value == 3
            with pytest.raises(ValueError, match="no"):
                work.fails.enqueue()
        with inline_jobs(raise_failures=False):
            result = work.succeeds_at.enqueue(3)
            result.refresh()
            assert result.status is installed.Status.SUCCESSFUL
            assert result.attempts == 3

    def test_drained_together_with_jobs(self) -> None:
        result = work.note.enqueue("task")
        note.delay("job")
        assert_enqueued(work.note, "task")
        assert len(run_jobs()) == 2
        assert (work.noted, done) == (["task"], ["job"])
        result.refresh()
        assert result.is_finished

    def test_in_a_transaction(self) -> None:
        with override_settings(
            TASKS={"default": {**installed.TASKS["default"], "OPTIONS": COMMIT}}
        ):
            with captured_jobs() as jobs, transaction.atomic():
                work.note.enqueue("x")
                assert jobs == []
            assert len(jobs) == 1
