"""Assertions on what has been put. Their messages list what was put instead."""

from __future__ import annotations

from typing import Any

from django_qless.testing import shown
from django_qless.testing.captured import CapturedJob, CapturedJobs
from django_qless.testing.contexts import enqueued_jobs
from django_qless.testing.matching import Wanted


def assert_enqueued(
    job: Any, *args: Any, times: int | None = None, **kwargs: Any
) -> CapturedJob:
    """Fail unless this job has been put with these arguments; return the last of them.

    `job` is a function, a method (of one row: `feed.refresh`) or a class with `@job`, a
    Task, a name, or what `.args()` returns. Without arguments any will do, and `.args()`
    without arguments stands for none. Arguments are compared as the function would get
    them; `mock.ANY` is equal to everything.

    `queue`, `delay`, `run_at`, `priority`, `tags` (some of the job's), `after` and `alias`
    are the job's. `times` is how often it must have been put; without, at least once.
    """
    __tracebackhide__ = True
    if times is not None and times < 1:
        raise ValueError(f"times={times}: that is assert_not_enqueued")
    wanted, jobs = Wanted(job, args, kwargs), enqueued_jobs()
    found = [each for each in jobs if wanted.fits(each)]
    if not found:
        raise _failed(f"{wanted} was not enqueued", jobs)
    if times is not None and len(found) != times:
        raise _failed(f"{wanted} was enqueued {_times(len(found))}, not {times}", jobs)
    return found[-1]


def assert_not_enqueued(job: Any = None, *args: Any, **kwargs: Any) -> None:
    """Fail if this job has been put with these arguments; without a job, if any has."""
    __tracebackhide__ = True
    if job is None:
        assert_enqueued_count(0, **kwargs)
        return
    wanted, jobs = Wanted(job, args, kwargs), enqueued_jobs()
    found = [each for each in jobs if wanted.fits(each)]
    if found:
        raise _failed(f"{wanted} was enqueued {_times(len(found))}", jobs)


def assert_enqueued_count(count: int, *, queue: str = "", alias: str = "") -> None:
    """Fail unless so many jobs have been put, in one queue or of one alias if named."""
    __tracebackhide__ = True
    jobs = enqueued_jobs()
    found = [
        each for each in jobs if queue in ("", each.queue) and alias in ("", each.alias)
    ]
    if len(found) != count:
        where = f" in {queue!r}" if queue else ""
        where += f" of {alias!r}" if alias else ""
        noun = "job was" if len(found) == 1 else "jobs were"
        raise _failed(f"{len(found)} {noun} enqueued{where}, not {count}", jobs)


def _failed(text: str, jobs: CapturedJobs) -> AssertionError:
    if not jobs:
        return AssertionError(f"{text}. Nothing was enqueued.")
    return AssertionError(f"{text}. Enqueued:\n{shown.listing(jobs, '')}")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
