"""What a job sees and says while it runs."""

from __future__ import annotations

import copy
import pickle

import pytest

from django_qless import Fail, JobHandle, Retry, current_job
from django_qless.core import LockLost
from django_qless.exceptions import JobFailed, RowGone
from django_qless.job_types.current import CurrentJob
from tests.jobs_app import jobs


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
    for ask in (lambda: job.spawn([]), job.dependency_results):
        with pytest.raises(RuntimeError, match="only a job that a worker runs can"):
            ask()
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
    from django_qless.runtime.environment import DjangoEnvironment

    with pytest.raises(TypeError, match=r"the job's result\[0\]: a value of type set"):
        DjangoEnvironment().encode_result([{1}])
    assert DjangoEnvironment().encode_result(None) == ""
    assert DjangoEnvironment().resolve(job_type.name) is job_type
    assert handle.state == "waiting"
