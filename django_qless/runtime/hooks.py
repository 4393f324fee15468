"""The target time of a job's run, measured around its middleware."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from django_qless.job_types.current import CurrentJob
from django_qless.job_types.registry import JobType
from django_qless.worker.log import log_job_event

Run = Callable[[CurrentJob], Any]
AsyncRun = Callable[[CurrentJob], Awaitable[Any]]


def has_own(job_type: JobType) -> bool:
    """Return whether a job type has a target time."""
    return job_type.options.target_time is not None


def with_hooks(job_type: JobType, run: Run, *, is_async: bool) -> Run:
    """Return `run`, measured if the job type has a target time."""
    target = job_type.options.target_time
    if target is not None:
        run = _atimed(target, run) if is_async else _timed(target, run)
    return run


def _timed(target: float, run: Run) -> Run:
    def around(job: CurrentJob) -> Any:
        began = monotonic()
        try:
            return run(job)
        finally:
            note_time(job, target, monotonic() - began)

    return around


def _atimed(target: float, run: AsyncRun) -> AsyncRun:
    async def around(job: CurrentJob) -> Any:
        began = monotonic()
        try:
            return await run(job)
        finally:
            note_time(job, target, monotonic() - began)

    return around


def note_time(job: CurrentJob, target: float, seconds: float) -> None:
    """Note that a run took so many seconds, and log it if that exceeds its target."""
    if seconds <= target:
        return
    job.over_target = seconds, target
    log_job_event(
        logging.WARNING,
        "over target time",
        job.reserved,
        seconds=seconds,
        target=target,
    )
