"""What a job sees and says while it runs."""

from __future__ import annotations

import copy
import pickle

import pytest
from django.db import connection, transaction
from django.db import connections as databases
from django.test import override_settings
from django.utils import timezone, translation

from django_qless import Fail, JobHandle, Retry, current_job
from django_qless.core import LockLost
from django_qless.current import CurrentJob
from django_qless.exceptions import JobFailed, RowGone
from tests.jobs_app import jobs, middleware
from tests.jobs_app.models import Feed


def test_outside_of_any_job_there_is_none() -> None:
    assert current_job() is None


def test_the_current_job(qless, work) -> None:
    handle = jobs.whoami.using(queue="here", tags=["t"]).delay()
    work()
    assert handle.result() == {
        "jid": handle.jid,
        "queue": "here",
        "name": "tests.jobs_app.jobs.whoami",
        "attempt": 1,
        "tags": ["t"],
    }
    history = handle.refresh().history
    assert [e["at"] for e in history if e["what"] == "looked"] == ["itself"]
    assert current_job() is None


def test_the_current_job_in_detail(qless) -> None:
    context = '{"options":{"timeout":5}}'
    data = '{"v":1,"args":[1]}'
    qless.put("", "q", "x", "a.job", data, retries=3, priority=2, context=context)
    [reserved] = qless.settle("w", [], 1, ["q"]).jobs
    job = CurrentJob(reserved, qless, "w")
    assert (job.jid, job.queue, job.name, job.worker) == ("x", "q", "a.job", "w")
    assert (job.attempt, job.retries_left, job.priority) == (1, 3, 2)
    assert job.data == {"v": 1, "args": [1]}
    assert job.context == {"options": {"timeout": 5}}
    assert job.heartbeat() >= int(reserved.expires)
    job.progress(0.4, "40 of 100")
    assert JobHandle("default", qless.get("x")).progress == (0.4, "40 of 100")
    for wrong in (2, -1, float("nan"), "half", True):
        with pytest.raises((TypeError, ValueError), match="fraction must be"):
            job.progress(wrong)
    with pytest.raises(ValueError, match="move_to: the name of a queue, not ''"):
        job.move_to("")
    qless.timeout("x")
    for ask in (job.heartbeat, lambda: job.progress(0.1)):
        with pytest.raises(LockLost):
            ask()


def test_moving_on(qless, work) -> None:
    handle = jobs.step.delay("next")
    assert work("default") == 1
    moved = handle.refresh()
    assert (moved.state, moved.queue) == ("waiting", "next")


def test_retry(qless, work) -> None:
    handle = jobs.again.delay(60)
    assert work() == 1
    assert handle.refresh().state == "scheduled"


def test_failures_are_repeated_and_then_grouped(qless, work) -> None:
    handle = jobs.broken.delay("oh")
    assert work() == 3
    failure = handle.refresh().failure
    assert failure.group == "ValueError"
    assert "ValueError: oh" in failure.message
    with pytest.raises(JobFailed, match="ValueError"):
        handle.result()


def test_what_jobs_raise_can_be_copied() -> None:
    for error in (
        Retry(3, message="m"),
        Fail("g", "m"),
        RowGone("it"),
        JobFailed(*"jgm"),
    ):
        again = pickle.loads(pickle.dumps(copy.copy(error)))
        assert (type(again), str(again)) == (type(error), str(error))


def test_a_result_that_cannot_travel_fails(qless, work) -> None:
    from tests.jobs_app.jobs import echo

    handle = echo.delay()
    job_type = echo.job_type
    from django_qless.environment import DjangoEnvironment

    with pytest.raises(TypeError, match=r"the job's result\[0\]: a value of type set"):
        DjangoEnvironment().encode_result([{1}])
    assert DjangoEnvironment().encode_result(None) == ""
    assert DjangoEnvironment().resolve(job_type.name) is job_type
    assert handle.state == "waiting"


def test_a_soft_timeout_is_an_exception_in_the_job(qless, work) -> None:
    handle = jobs.sleepy.using(retries=0).delay()
    work()
    failure = handle.refresh().failure
    assert failure.group == "timeout"
    assert "longer than its timeout of 0.05 s" in failure.message
    assert "time.sleep(seconds)" in failure.message


def test_a_timeout_of_a_call_wins(qless, work) -> None:
    handle = jobs.sleepy.using(timeout=0.02, retries=0).delay()
    work()
    assert "timeout of 0.02 s" in handle.refresh().failure.message
    fine = jobs.sleepy.using(timeout=None).delay(0.06)
    work()
    assert fine.refresh().state == "complete"


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_job_leaves_nothing_behind(qless, work) -> None:
    messy = jobs.leaves_a_mess.delay()
    after = jobs.surroundings.delay()
    work()
    assert messy.result() == "de"
    assert after.result() == ["en-us", "America/Chicago", False, "en-us"]
    assert translation.get_language() == "en-us"
    assert timezone.get_current_timezone_name() == "America/Chicago"
    assert not connection.in_atomic_block


@pytest.mark.django_db
def test_a_transaction_around_the_worker_stays(qless, work) -> None:
    assert connection.in_atomic_block
    Feed.objects.create(title="kept")
    with transaction.atomic():
        handle = jobs.surroundings.using(on_commit=False).delay()
        work()
    assert handle.result()[2] is True
    assert Feed.objects.get().title == "kept"


def test_middleware_runs_around_each_job(qless, work, server) -> None:
    names = ["tests.jobs_app.middleware.outer", "tests.jobs_app.middleware.inner"]
    aliases = {"default": {"LOCATION": server.url, "MIDDLEWARE": names}}
    middleware.seen.clear()
    with override_settings(QLESS=aliases):
        handle = jobs.add.delay(1)
        work()
        assert handle.result() == ["wrapped", 1]
    assert middleware.seen == ["outer tests.jobs_app.jobs.add", "inner"]


@pytest.mark.django_db
def test_connections_are_looked_at_around_jobs(qless, work, monkeypatch) -> None:
    looks = []
    connection.ensure_connection()
    monkeypatch.setattr(
        databases["default"], "close_if_unusable_or_obsolete", lambda: looks.append(1)
    )
    many = [jobs.add.args(1), jobs.add.args(2)]
    jobs.add.using(on_commit=False).enqueue_many(many)
    work()
    # Before the first, after each; not before the second, which follows at once.
    assert len(looks) == 3
