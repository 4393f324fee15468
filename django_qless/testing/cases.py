"""`QlessTestMixin`: the helpers as methods of unittest's classes."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

from django_qless.testing import assertions
from django_qless.testing.contexts import captured_jobs, enqueued_jobs, inline_jobs
from django_qless.testing.draining import arun_jobs, run_jobs

if TYPE_CHECKING:
    from django_qless.testing.captured import CapturedJob, CapturedJobs

    Case = unittest.TestCase
else:
    Case = object


class QlessTestMixin(Case):
    """Stands before TestCase: `class SignupTests(QlessTestMixin, TestCase)`.

    Each test begins without jobs: nothing has been put, and the tests' server is empty.
    """

    #: As in `django_qless.testing`.
    captured_jobs = captured_jobs
    inline_jobs = inline_jobs
    run_jobs = staticmethod(run_jobs)
    arun_jobs = staticmethod(arun_jobs)

    def run(self, result: Any = None) -> Any:
        """Run the test."""
        # Not in setUp, which test classes override without calling this one's.
        from django_qless.testing.cleaning import clean

        clean()
        try:
            return super().run(result)
        finally:
            clean()

    @property
    def enqueued_jobs(self) -> CapturedJobs:
        """What this test has put."""
        return enqueued_jobs()

    def assertEnqueued(  # noqa: N802 (unittest's spelling)
        self, job: Any, *args: Any, times: int | None = None, **kwargs: Any
    ) -> CapturedJob:
        """Fail unless this job has been put: see `assert_enqueued`."""
        return assertions.assert_enqueued(job, *args, times=times, **kwargs)

    def assertNotEnqueued(  # noqa: N802
        self, job: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Fail if this job has been put: see `assert_not_enqueued`."""
        assertions.assert_not_enqueued(job, *args, **kwargs)

    def assertEnqueuedCount(  # noqa: N802
        self, count: int, *, queue: str = "", alias: str = ""
    ) -> None:
        """Fail unless so many jobs have been put: see `assert_enqueued_count`."""
        assertions.assert_enqueued_count(count, queue=queue, alias=alias)
