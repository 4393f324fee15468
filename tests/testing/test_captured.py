"""captured_jobs: what is enqueued is kept instead, with everything that can be said of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading

import pytest
from django.utils import timezone

from django_qless.exceptions import Fail, JobGone
from django_qless.servers import throwaway
from django_qless.testing import captured_jobs, enqueued_jobs
from tests.jobs_app.jobs import send_welcome
from tests.jobs_app.models import Feed
from tests.testing.jobs import (
    Steps,
    anote,
    aspawns,
    done,
    gives_up,
    note,
    outer,
    third_time,
)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def test_everything_about_a_job() -> None:
    with captured_jobs() as jobs:
        handle = send_welcome.using(delay=60, priority=3, timeout=5).delay(
            7, template="vip"
        )
    job = jobs.only
    assert job.handle is handle
    assert (job.jid, job.name, job.alias) == (handle.jid, handle.name, "default")
    assert job.name == "tests.jobs_app.jobs.send_welcome"
    assert job.function is send_welcome.declaration.function
    assert (job.args, job.kwargs, job.row) == ([7], {"template": "vip"}, None)
    assert (job.queue, job.delay, job.priority, job.retries) == ("mail", 60, 3, 5)
    assert job.tags == ["mail"]
    assert job.options == {"timeout": 5}
    assert job.run_at is not None
    assert abs(job.run_at - timezone.now() - dt.timedelta(seconds=60)).seconds < 10
    assert repr(job) == (
        "<tests.jobs_app.jobs.send_welcome(7, template='vip') in 'mail', delay=60, "
        "priority=3, tags=['mail']>"
    )


def test_nothing_is_enqueued_and_no_server_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_server() -> None:
        raise AssertionError("a server is started")

    monkeypatch.setattr(throwaway, "server", no_server)
    with captured_jobs() as jobs:
        handle = note.delay("x")
        note.enqueue_many([note.args("y"), note.args("z")])
        assert [job.args for job in jobs] == [["x"], ["y"], ["z"]]
    assert not handle.pending
    assert handle.state == "waiting"
    monkeypatch.undo()
    with pytest.raises(JobGone):
        handle.refresh()


def test_rich_arguments_are_as_the_function_would_get_them() -> None:
    day = dt.date(2030, 1, 31)
    with captured_jobs() as jobs:
        note.delay((day, {"a": 1}))
    assert jobs.only.args == [[day, {"a": 1}]]
    assert "note([datetime.date(2030, 1, 31), {'a': 1}])" in repr(jobs)


@pytest.mark.django_db
def test_rows() -> None:
    feed = Feed.objects.create(title="old")
    with captured_jobs() as jobs:
        feed.merge.delay(feed)
    job = jobs.only
    assert job.args == [feed]
    assert job.args[0] is not feed
    assert job.row == feed
    assert f"merge[{feed.pk}](<jobs_app.Feed {feed.pk}>)" in repr(job)
    with captured_jobs() as jobs:
        feed.merge.delay(feed)
    Feed.objects.all().delete()
    # A row that is gone is not what the test is about.
    assert jobs.only.args == [{"$model": "jobs_app.Feed", "pk": job.args[0].pk}]
    assert "Feed" in repr(jobs)


def test_without_a_database_references_stay() -> None:
    feed = Feed(pk=5)
    feed._state.adding = False
    with captured_jobs() as jobs:
        note.delay(feed)
    assert jobs.only.args == [{"$model": "jobs_app.Feed", "pk": 5}]


def test_looking_for_jobs() -> None:
    with captured_jobs() as jobs:
        note.delay("a")
        note.delay("b", mark="x")
        send_welcome.delay(1)
        assert jobs.names[:2] == ["tests.testing.jobs.note"] * 2
        assert len(jobs.of(note)) == 2
        assert jobs.of(note, "b", mark="x").only.kwargs == {"mark": "x"}
        assert jobs.of(note, "c") == []
        assert jobs.of(send_welcome, queue="mail").only.args == [1]
        assert [job.args for job in jobs.in_queue("notes")] == [["a"], ["b"]]
        assert len(jobs.where(lambda job: job.kwargs)) == 1
        assert jobs[1].matches(note, "b", mark="x")
        with pytest.raises(AssertionError, match=r"not one job, but <3 jobs:\n.*note"):
            _ = jobs.only


def test_blocks_in_blocks() -> None:
    with captured_jobs() as outside:
        note.delay("first")
        with captured_jobs() as inside:
            note.delay("second")
            assert enqueued_jobs() is inside
        note.delay("third")
        assert enqueued_jobs() is outside
    assert [job.args for job in outside] == [["first"], ["third"]]
    assert inside.only.args == ["second"]


def test_what_other_threads_enqueue_is_captured_too() -> None:
    with captured_jobs() as jobs:
        threads = [
            threading.Thread(target=note.using(on_commit=False).delay, args=(n,))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(job.args[0] for job in jobs) == list(range(8))


def test_as_decorators() -> None:
    found = []

    @captured_jobs()
    def put() -> None:
        """Enqueue one."""
        note.delay("x")
        found.append(len(enqueued_jobs()))

    put()
    put()
    assert found == [1, 1]
    assert put.__doc__ == "Enqueue one."


def test_from_asynchronous_code() -> None:
    @captured_jobs()
    async def put() -> list[object]:
        await note.aenqueue("x")
        await note.aenqueue_many([note.args("y")])
        async with captured_jobs() as jobs:
            await note.aenqueue("z")
        return [*enqueued_jobs(), *jobs]

    jobs = asyncio.run(put())
    assert [job.args for job in jobs] == [["x"], ["y"], ["z"]]  # type: ignore[attr-defined]


@pytest.mark.django_db
def test_running_them() -> None:
    feed = Feed.objects.create(title="old")
    with captured_jobs() as jobs:
        feed.rename.using(delay=3600).delay("new")
        anote.using(after=[jobs[0].handle]).delay("async")
        assert jobs[0].run().result == "new"
        runs = jobs.run()
    feed.refresh_from_db()
    assert feed.title == "new"
    assert done == ["async"]
    assert [run.outcome for run in runs] == ["complete", "complete"]


def test_running_one_that_enqueues_others() -> None:
    with captured_jobs() as jobs:
        outer.delay()
        assert jobs.run().names == ["tests.testing.jobs.outer"]
        assert [job.args for job in jobs.of(note)] == [["inner"], ["later"]]
    assert done == ["outer"]


def test_running_one_that_fails() -> None:
    with captured_jobs() as jobs:
        third_time.delay()
        gives_up.delay()
    with pytest.raises(ValueError, match="attempt 1"):
        jobs.run()
    failed = jobs[0].run(raise_failures=False)
    assert (failed.outcome, failed.attempt) == ("retried", 1)
    assert isinstance(failed.exception, ValueError)
    with pytest.raises(Fail, match="no such file"):
        jobs[1].run()
    assert jobs[1].run(raise_failures=False).group == "bad-input"


def test_a_class_job() -> None:
    with captured_jobs() as jobs:
        Steps.using(queue="first").delay({"n": 1})
    assert jobs.of(Steps, {"n": 1}).only.function is Steps
    assert repr(jobs.only) == "<tests.testing.jobs.Steps({'n': 1}) in 'first'>"
    assert jobs.run().only.outcome == "moved"
    assert done == [("first", 1)]


def test_moments_that_were_given() -> None:
    moment = timezone.now() + dt.timedelta(hours=1)
    with captured_jobs() as jobs:
        note.using(run_at=moment).delay("then")
        note.using(expires=60, on_failure="run").delay("soon")
        note.using(expires=moment).delay("before")
    then, soon, before = jobs
    assert then.run_at is not None
    assert abs(then.run_at - moment) < dt.timedelta(milliseconds=1)
    assert then.delay == pytest.approx(3600, abs=10)
    assert soon.options == {"expires": 60, "on_failure": "run"}
    assert before.options == {"expires": pytest.approx(3600, abs=10)}
    assert soon.run_at is None


def test_what_a_captured_coroutine_spawns() -> None:
    with captured_jobs() as jobs:
        aspawns.delay()
        assert jobs.run().only.result == 1
    assert jobs.names == ["tests.testing.jobs.aspawns", "tests.testing.jobs.note"]
    assert jobs[1].args == ["spawned"]
