"""Hooks of a job's run: should_run, which may refuse it, and its target time.

They are put around a job's middleware where a job, or its alias, has them; all other
jobs run without them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.utils.module_loading import import_string

from django_qless import conf
from django_qless.exceptions import Fail
from django_qless.job_types.current import CurrentJob
from django_qless.job_types.registry import JobType
from django_qless.runtime.returned import awaited, is_awaitable
from django_qless.worker.log import log_job_event

Run = Callable[[CurrentJob], Any]
AsyncRun = Callable[[CurrentJob], Awaitable[Any]]

#: The failure group of jobs that a hook has refused.
REFUSED = "refused"


def has_own(job_type: JobType) -> bool:
    """Return whether a job type has its own hooks."""
    options = job_type.options
    return options.should_run is not None or options.target_time is not None


def with_hooks(alias: str, job_type: JobType, run: Run, *, is_async: bool) -> Run:
    """Return `run` with the hooks of the alias and of the job type around it.

    The hook of the alias is asked first. With `is_async` both return awaitables. Raises
    ImportError for a dotted name that is none.
    """
    target = job_type.options.target_time
    if target is not None:
        run = _atimed(target, run) if is_async else _timed(target, run)
    for hook in (job_type.options.should_run, conf.alias(alias).should_run):
        if hook is not None:
            asked = import_string(hook) if isinstance(hook, str) else hook
            run = _aasking(asked, run) if is_async else _asking(asked, run)
    return run


def _asking(hook: Callable[..., Any], run: Run) -> Run:
    def around(job: CurrentJob) -> Any:
        answer = hook(job)
        if is_awaitable(answer):
            answer = async_to_sync(awaited)(answer)
        _check(hook, answer)
        return run(job)

    return around


def _aasking(hook: Callable[..., Any], run: AsyncRun) -> AsyncRun:
    asked = hook if iscoroutinefunction(hook) else sync_to_async(hook)

    async def around(job: CurrentJob) -> Any:
        _check(hook, await awaited(await asked(job)))
        return await run(job)

    return around


def _check(hook: Callable[..., Any], answer: object) -> None:
    """Raise Fail if a hook refuses the job, TypeError if it returns no valid answer."""
    if answer is True:
        return
    if answer is False:
        raise Fail(REFUSED, f"{_name(hook)} refused the job")
    if isinstance(answer, str) and answer:
        raise Fail(REFUSED, answer)
    raise TypeError(
        f"should_run: {_name(hook)} must return True to run the job, or to refuse it "
        f"False or the reason as text, not {answer!r}"
    )


def _name(hook: Callable[..., Any]) -> str:
    name = getattr(hook, "__qualname__", "")
    return f"{hook.__module__}.{name}" if name else repr(hook)


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
