"""Assertions on enqueued jobs, as functions and as methods of unittest's classes."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

from django_qless.testing.captured import CapturedJob, CapturedJobs
from django_qless.testing.dispatcher import clean
from django_qless.testing.matching import JobMatcher, listing
from django_qless.testing.modes import captured_jobs, enqueued_jobs, inline_jobs
from django_qless.testing.runner import arun_jobs, run_jobs

if TYPE_CHECKING:
    Case = unittest.TestCase
else:
    Case = object


def assert_enqueued(
    job: Any, *args: Any, times: int | None = None, **kwargs: Any
) -> CapturedJob:
    """Fail unless this job was enqueued with these arguments; return the last one.

    `job` is a function, a method (of one row: `feed.refresh`) or a class with `@job`, a
    Task, a name, or what `.args()` returns. Without arguments any will do, and `.args()`
    without arguments stands for none. Arguments are compared as the function would get
    them; `mock.ANY` is equal to everything.

    `queue`, `delay`, `run_at`, `priority`, `tags` (some of the job's), `after` and `alias`
    are the job's. `times` is how often it must have been enqueued; by default, at least
    once.
    """
    __tracebackhide__ = True
    if times is not None and times < 1:
        raise ValueError(f"times={times}: use assert_not_enqueued instead")
    matcher, jobs = JobMatcher(job, args, kwargs), enqueued_jobs()
    found = [each for each in jobs if matcher.matches(each)]
    if not found:
        raise _failure(f"{matcher} was not enqueued", jobs)
    if times is not None and len(found) != times:
        raise _failure(
            f"{matcher} was enqueued {_times(len(found))}, not {times}", jobs
        )
    return found[-1]


def assert_not_enqueued(job: Any = None, *args: Any, **kwargs: Any) -> None:
    """Fail if this job was enqueued with these arguments; by default, any job."""
    __tracebackhide__ = True
    if job is None:
        assert_enqueued_count(0, **kwargs)
        return
    matcher, jobs = JobMatcher(job, args, kwargs), enqueued_jobs()
    found = [each for each in jobs if matcher.matches(each)]
    if found:
        raise _failure(f"{matcher} was enqueued {_times(len(found))}", jobs)


def assert_enqueued_count(count: int, *, queue: str = "", alias: str = "") -> None:
    """Fail unless `count` jobs were enqueued, in this queue or alias if given."""
    __tracebackhide__ = True
    jobs = enqueued_jobs()
    found = [
        each for each in jobs if queue in ("", each.queue) and alias in ("", each.alias)
    ]
    if len(found) != count:
        where = f" in {queue!r}" if queue else ""
        where += f" of {alias!r}" if alias else ""
        noun = "job was" if len(found) == 1 else "jobs were"
        raise _failure(f"{len(found)} {noun} enqueued{where}, not {count}", jobs)


class QlessTestMixin(Case):
    """Helpers for unittest: `class SignupTests(QlessTestMixin, TestCase)`.

    Each test begins without jobs: nothing is enqueued, and the tests' server is empty.
    """

    #: As in `django_qless.testing`.
    captured_jobs = captured_jobs
    inline_jobs = inline_jobs
    run_jobs = staticmethod(run_jobs)
    arun_jobs = staticmethod(arun_jobs)

    def run(self, result: Any = None) -> Any:
        """Run the test."""
        # Not in setUp, which test classes override without calling this one's.
        clean()
        try:
            return super().run(result)
        finally:
            clean()

    @property
    def enqueued_jobs(self) -> CapturedJobs:
        """The jobs that this test has enqueued."""
        return enqueued_jobs()

    def assertEnqueued(  # noqa: N802 (unittest's spelling)
        self, job: Any, *args: Any, times: int | None = None, **kwargs: Any
    ) -> CapturedJob:
        """Fail unless this job was enqueued: see `assert_enqueued`."""
        return assert_enqueued(job, *args, times=times, **kwargs)

    def assertNotEnqueued(  # noqa: N802
        self, job: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Fail if this job was enqueued: see `assert_not_enqueued`."""
        assert_not_enqueued(job, *args, **kwargs)

    def assertEnqueuedCount(  # noqa: N802
        self, count: int, *, queue: str = "", alias: str = ""
    ) -> None:
        """Fail unless `count` jobs were enqueued: see `assert_enqueued_count`."""
        assert_enqueued_count(count, queue=queue, alias=alias)


def _failure(text: str, jobs: CapturedJobs) -> AssertionError:
    if not jobs:
        return AssertionError(f"{text}. Nothing was enqueued.")
    return AssertionError(f"{text}. Enqueued:\n{listing(jobs)}")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
