"""Middleware around executions, of both kinds, in every way to run a job."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_qless.runtime.middleware import chained
from tests.jobs_app import jobs, middleware

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def uses(server) -> Any:
    """Has these middlewares around all jobs; gives what they have seen."""

    @contextmanager
    def uses(*names: str) -> Iterator[list[str]]:
        dotted = [f"tests.jobs_app.middleware.{name}" for name in names]
        aliases = {"default": {"LOCATION": server.url, "MIDDLEWARE": dotted}}
        middleware.seen.clear()
        with override_settings(QLESS=aliases):
            yield middleware.seen

    return uses


def test_it_runs_around_each_job(qless, each_work, uses) -> None:
    with uses("outer", "inner") as seen:
        for job in (jobs.add, jobs.aadd):
            handle = job.delay(1, 2)
            each_work()
            assert handle.result() == ["wrapped", 3]
            assert seen == [f"outer {job.name}", "inner"]
            seen.clear()


def test_it_is_made_once_for_all_jobs(qless, work, uses) -> None:
    with uses("counted") as seen:
        jobs.add.enqueue_many([jobs.add.args(n) for n in range(3)])
        assert work() == 3
        assert seen == ["made"]


def test_classes_may_decide_about_the_result(qless, each_work, uses) -> None:
    with uses("Catching"):
        handle = jobs.broken.delay("oh")
        each_work()
        assert handle.result() == "caught ValueError: oh"


def test_a_timeout_passes_through_it(qless, each_work, uses) -> None:
    with uses("Catching"):
        handles = [jobs.spins.delay(), jobs.asleepy.delay()]
        each_work()
        for handle in handles:
            assert handle.result().startswith("caught JobTimeout: the job ran longer")


class TestKinds:
    """Thread or loop of each kind of middleware, by kind of job and of pool."""

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (["both"], ["both async loop"]),
            (["only_async"], ["only async loop"]),
            (["only_sync"], ["only sync thread"]),
            (
                ["both", "only_async", "both", "only_sync", "both"],
                [
                    # As in Django: one that can do both goes along with the next.
                    *("both async loop", "only async loop", "both sync thread"),
                    *("only sync thread", "both async loop"),
                ],
            ),
        ],
    )
    def test_around_a_coroutine_in_a_loop(
        self, qless, loop_work, uses, names: list[str], expected: list[str]
    ) -> None:
        with uses(*names) as seen:
            handle = jobs.aadd.delay(1, 2)
            loop_work()
            assert handle.result() == 3
            assert seen == expected

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("both", "both sync thread"),
            ("only_sync", "only sync thread"),
            # It has a loop of its own, beside the thread.
            ("only_async", "only async loop"),
        ],
    )
    def test_around_a_function_in_a_loop(
        self, qless, loop_work, uses, name: str, expected: str
    ) -> None:
        with uses(name) as seen:
            handle = jobs.add.delay(1)
            loop_work()
            assert handle.result() == 1
            assert seen == [expected]

    @pytest.mark.parametrize("job", [jobs.add, jobs.aadd])
    def test_without_a_loop(self, qless, work, uses, job: Any) -> None:
        with uses("both", "only_sync", "only_async") as seen:
            handle = job.delay(1, 2)
            work()
            assert handle.result() == 3
            assert seen == ["both sync main", "only sync main", "only async loop"]


class TestFactories:
    def test_one_that_is_not_used_is_left_out(self, qless, work, uses) -> None:
        with uses("not_used", "inner") as seen:
            handle = jobs.add.delay(1)
            work()
            assert handle.result() == ["wrapped", 1]
            assert seen == ["not used", "inner"]

    @pytest.mark.parametrize(
        ("factory", "words"),
        [
            (middleware.capable_of_nothing, "must have at least one of sync_capable"),
            (middleware.returns_nothing, "returned None"),
        ],
    )
    def test_one_that_cannot_be(self, factory: Any, words: str) -> None:
        with pytest.raises(ImproperlyConfigured, match=words):
            chained([factory], lambda job: None, is_async=False)

    def test_coroutine_that_nobody_awaits_fails_the_job(
        self, qless, each_work, uses
    ) -> None:
        with uses("unmarked"):
            handle = jobs.add.using(retries=0).delay(1)
            each_work()
            failure = handle.refresh().failure
            assert "async_only_middleware" in failure.message

    def test_a_failure_of_one_is_the_jobs(self, qless, each_work, uses) -> None:
        with uses("no_such_thing"):
            handle = jobs.add.using(retries=0).delay(1)
            each_work()
            failure = handle.refresh().failure
            assert failure.group == "ImportError"
            assert "no_such_thing" in failure.message
