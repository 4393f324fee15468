"""The wrappers of a run: each takes a callable that runs a job, and returns another.

The environment chains them around the call of the job's function. Two more are elsewhere:
the project's middleware, and the context that has travelled with the job.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

from django_qless.job_types.current import CurrentJob, running
from django_qless.runtime.announcements import Announcements
from django_qless.runtime.calls import is_async
from django_qless.runtime.leftover import in_task_scope
from django_qless.runtime.middleware import Run
from django_qless.worker.interrupt import ThreadScope


def in_own_context(run: Run) -> Run:
    """Let context variables that a job sets (language, time zone) end with it."""

    def around(job: CurrentJob) -> Any:
        context = copy_context()
        context.run(running.set, job)
        return context.run(run, job)

    return around


def with_clean_connections(environment: Announcements, run: Run) -> Run:
    """Clean up the database connections of this thread before and after a job."""
    before_job, after_job = environment.before_job, environment.after_job

    def around(job: CurrentJob) -> Any:
        depths = before_job()
        try:
            return run(job)
        finally:
            after_job(depths, suspect=job.was_interrupted)

    return around


def within_timeout(run: Run) -> Run:
    """Interrupt a function at its soft timeout."""

    def around(job: CurrentJob) -> Any:
        if is_async(job):
            return run(job)  # its coroutine is interrupted, in its own event loop
        scope = ThreadScope(job.reserved.token, job.soft_timeout)
        try:
            return scope.run(run, job)
        finally:
            job.was_interrupted |= scope.was_interrupted

    return around


def awithin_timeout(run: Run) -> Run:
    """Interrupt a coroutine at its soft timeout."""

    def around(job: CurrentJob) -> Any:
        return in_task_scope(job, job.soft_timeout, run(job))

    return around
