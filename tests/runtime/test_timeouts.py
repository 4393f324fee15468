"""Limits of time: what a job may say, what its queue says, and what they do."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from django_qless import job
from django_qless.conf import alias
from django_qless.exceptions import Interrupted, InvalidOption, JobLost, ShuttingDown
from django_qless.job_types.options import Options
from django_qless.job_types.registry import registry
from django_qless.runtime.environment import DjangoEnvironment, Limits
from django_qless.worker.execution import Execution
from django_qless.worker.failure_policy import FailurePolicy
from django_qless.worker.interrupt import interrupt
from tests.jobs_app import jobs

if TYPE_CHECKING:
    from django_qless.core import Reserved


@pytest.mark.parametrize("job", [jobs.spins, jobs.asleepy])
def test_a_soft_timeout_is_an_exception_in_the_job(qless, each_work, job: Any) -> None:
    handle = job.using(retries=0).delay()
    each_work()
    failure = handle.refresh().failure
    assert failure.group == "timeout"
    assert "longer than its timeout of 0.05 s" in failure.message
    assert f"in {job.declaration.function.__name__}" in failure.message


def test_it_ends_what_waits_in_the_main_thread(qless, work) -> None:
    handle = jobs.sleepy.using(retries=0).delay()
    work()
    failure = handle.refresh().failure
    assert failure.group == "timeout"
    assert "time.sleep(seconds)" in failure.message


def test_a_timeout_is_tried_again(qless, each_work) -> None:
    handle = jobs.spins.using(retries=1, backoff=0).delay()
    assert each_work() == 2
    assert handle.refresh().failure.group == "timeout"


def test_a_coroutine_may_catch_its_cancellation(qless, each_work) -> None:
    handle = jobs.tidies_up.delay()
    each_work()
    assert handle.result() == "tidied up"


def test_a_timeout_of_a_call_wins(qless, each_work) -> None:
    handle = jobs.spins.using(timeout=0.02, retries=0).delay()
    each_work()
    assert "timeout of 0.02 s" in handle.refresh().failure.message
    fine = jobs.spins.using(timeout=None).delay(0.06)
    each_work()
    assert fine.refresh().state == "complete"


@pytest.mark.parametrize("error", [ShuttingDown(), JobLost()])
@pytest.mark.parametrize("job", [jobs.spins, jobs.asleepy])
def test_a_job_that_is_interrupted_is_handed_back(
    qless, each_way, job: Any, error: Interrupted
) -> None:
    """It counts as if it had never been taken."""
    handle = job.using(retries=0, timeout=30).delay()
    [reserved] = qless.settle("w", [], 1, ["default"]).jobs
    execution = Execution(DjangoEnvironment(), qless, "w")
    jobs.begun.clear()

    def stop() -> None:
        jobs.begun.wait()
        assert interrupt(reserved.token, error)

    interrupter = Thread(target=stop)
    interrupter.start()
    outcome = each_way(execution, reserved)
    interrupter.join()
    assert (outcome.verb, outcome.args) == ("release", (0,))
    qless.settle("w", [outcome], 0, ())
    now = handle.refresh()
    assert (now.state, now.failure) == ("waiting", None)


def test_a_coroutine_that_cancels_itself_has_failed(qless, loop_work) -> None:
    @job(name="tests.cancels_itself", retries=0)
    async def cancels_itself() -> None:
        raise asyncio.CancelledError("I give up")

    handle = cancels_itself.delay()
    assert loop_work() == 1
    failure = handle.refresh().failure
    assert (failure.group, "I give up" in failure.message) == ("CancelledError", True)
    del registry._types["tests.cancels_itself"]


class TestOptions:
    def test_seconds_and_timedeltas(self) -> None:
        options = Options().changed("it", timeout=timedelta(minutes=1), hard_timeout=90)
        assert (options.timeout, options.hard_timeout) == (60, 90)

    @pytest.mark.parametrize("value", [0, -1, "5", True, float("nan")])
    def test_what_is_no_limit(self, value: Any) -> None:
        with pytest.raises(InvalidOption, match="it: hard_timeout must be"):
            Options().changed("it", hard_timeout=value)

    def test_the_soft_one_comes_before_the_hard_one(self) -> None:
        with pytest.raises(InvalidOption, match="timeout=5 exceeds hard_timeout=4"):
            Options().changed("it", timeout=5, hard_timeout=4)
        declared = Options().changed("it", hard_timeout=4)
        with pytest.raises(InvalidOption, match="would be killed before"):
            declared.changed("it", timeout=5)
        assert declared.changed("it", timeout=4).timeout == 4


class TestLimits:
    @pytest.fixture
    def limits_of(self, qless) -> Any:
        """Return what applies to a job that was put in this way."""

        def limits_of(job: Any, *args: Any) -> Limits:
            handle = job.delay(*args)
            [reserved] = qless.settle("w", [], 1, [handle.queue]).jobs
            job_type = registry.get(reserved.klass)
            assert job_type is not None
            return DjangoEnvironment().limits(job_type, reserved)

        return limits_of

    def test_without_any(self, limits_of) -> None:
        assert limits_of(jobs.add, 1) == (None, None)

    def test_what_is_declared(self, limits_of) -> None:
        assert limits_of(jobs.spins) == (0.05, None)

    def test_what_a_call_says(self, limits_of) -> None:
        job = jobs.spins.using(timeout=7, hard_timeout=timedelta(seconds=8))
        assert limits_of(job) == (7, 8)

    def test_what_the_queue_says(self, limits_of, server) -> None:
        queues = {"limited": {"timeout": 3, "hard_timeout": 5}, "half": {"timeout": 4}}
        aliases = {"default": {"LOCATION": server.url, "QUEUES": queues}}
        with override_settings(QLESS=aliases):
            add = jobs.add.using(queue="limited")
            assert limits_of(add, 1) == (3, 5)
            assert limits_of(add.using(timeout=2), 1) == (2, 5)
            assert limits_of(add.using(timeout=2, hard_timeout=9), 1) == (2, 9)
            assert limits_of(jobs.add.using(queue="half"), 1) == (4, None)
            assert limits_of(jobs.add, 1) == (None, None)

    def test_the_queues_limit_is_kept(self, qless, each_work, server) -> None:
        queues = {"limited": {"timeout": 0.03}}
        aliases = {"default": {"LOCATION": server.url, "QUEUES": queues}}
        with override_settings(QLESS=aliases):
            handle = jobs.whatever_the_queue_says.using(retries=0).delay()
            each_work()
            assert "timeout of 0.03 s" in handle.refresh().failure.message

    def test_another_version_may_have_put_what_does_not_fit(self, limits_of) -> None:
        """Here the job is declared with less than the call had asked for."""
        job = jobs.briefly.using(hard_timeout=100, timeout=50)
        handle = job.delay()
        context = handle._client().get(handle.jid).context
        assert context == {"options": {"timeout": 50, "hard_timeout": 100}}
        handle.cancel()
        job_type = jobs.briefly.job_type
        options = job_type.options_for('{"options":{"timeout":50}}')
        assert (options.timeout, options.hard_timeout) == (50, 2)


class TestHardLimits:
    """State that a pool shares with its parent."""

    @pytest.fixture
    def policy(self) -> FailurePolicy:
        return FailurePolicy(DjangoEnvironment())

    def reserved(self, qless: Any, job: Any, *args: Any) -> Reserved:
        handle = job.delay(*args)
        [reserved] = qless.settle("w", [], 1, [handle.queue]).jobs
        found: Reserved = reserved
        return found

    def test_none(self, policy, qless) -> None:
        assert policy.hard_limit(self.reserved(qless, jobs.add, 1)) == (0, 0)
        assert policy.hard_limit(self.reserved(qless, jobs.spins)) == (0, 0)

    def test_the_limit_and_the_delay_of_the_next_attempt(self, policy, qless) -> None:
        job = jobs.briefly.using(backoff=[7, 8])
        assert policy.hard_limit(self.reserved(qless, job)) == (2, 7)

    def test_of_a_job_of_an_unknown_type(self, policy, qless) -> None:
        qless.put("", "q", "x", "nobody.knows", "{}")
        [reserved] = qless.settle("w", [], 1, ["q"]).jobs
        assert policy.hard_limit(reserved) == (0, 0)

    def test_of_a_job_whose_options_cannot_be_read(self, policy, qless) -> None:
        reserved = self.reserved(qless, jobs.briefly)
        broken = reserved._replace(context='{"options":{"timeout":"long"}}')
        assert policy.hard_limit(broken) == (0, 0)


class TestSettings:
    def problems(self, queues: Any) -> list[str]:
        default = {"LOCATION": "redis://localhost", "QUEUES": queues}
        # (Tasks of other tests are in the other one.)
        other = {"LOCATION": "redis://localhost/1"}
        with override_settings(QLESS={"default": default, "other": other}):
            return [each.msg for each in run_checks(tags=["qless"])]

    def test_what_a_queue_may_say(self) -> None:
        options = {"timeout": 1.5, "hard_timeout": 2, "weight": 3, "heartbeat": 9}
        assert self.problems({"mail": options}) == []

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"timeout": 0}, "timeout of queue 'mail' must be above 0"),
            ({"hard_timeout": "5"}, "hard_timeout of queue 'mail' must be a number"),
            ({"timeout": 5, "hard_timeout": 4}, "exceeds its hard_timeout"),
            ({"timeouts": 5}, "has no option 'timeouts'"),
        ],
    )
    def test_what_it_may_not(self, options: Any, words: str) -> None:
        [problem] = self.problems({"mail": options})
        assert words in problem

    def test_limits_are_not_brought_to_the_server(self) -> None:
        queues = {"mail": {"timeout": 5, "heartbeat": 30}}
        aliases = {"default": {"LOCATION": "redis://localhost", "QUEUES": queues}}
        with override_settings(QLESS=aliases):
            assert alias().declared_options == {"mail-heartbeat": "30"}
