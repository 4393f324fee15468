"""Outcomes of jobs that were not run to their end: returned, crashed, or killed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker import failure_report
from django_qless.worker.failure_policy import NO_RETRY
from django_qless.worker.log import log_event

if TYPE_CHECKING:
    from django_qless.worker.children import Held

CRASH_LIMIT = 3
"""Number of times that a job may kill its process and still be tried again."""


def released(held: Held) -> Settlement:
    """Return the job to its queue at once, with nothing used up."""
    return Settlement(held.job.jid, held.job.token, "release", (0,), waited(held))


def died(held: Held, pid: int, status: int, text: str = "") -> Settlement:
    """Settle a job whose process died by itself: the job crashed.

    `status` is an exit code, or the number of a signal below zero; `text` is what the
    process has written at its end.
    """
    return crashed(held, failure_report.crash_message(pid, status), text)


def blocked(
    held: Held, pid: int, seconds: float, text: str, *, sure: bool
) -> Settlement:
    """Settle a job that has, perhaps, blocked an event loop for `seconds`."""
    whose = f"the event loop of process {pid} for {seconds:.0f} s"
    message = f"The job blocked {whose}: the process was killed."
    if not sure:
        message = f"The job, or another beside it, blocked {whose}, which was killed."
    return crashed(held, message, text)


def overran(held: Held, pid: int, limit: float, delay: float, text: str) -> Settlement:
    """Settle a job that ran beyond its hard limit, in seconds.

    It is tried again after `delay` seconds; below 0: not at all.
    """
    level = logging.ERROR if delay < 0 else logging.WARNING
    log_event(level, "hard timeout, killing", jid=held.job.jid, pid=pid, seconds=limit)
    message = with_stacks(failure_report.overrun_message(limit), text)
    job, failure = held.job, (failure_report.TIMEOUT, message)
    if delay == NO_RETRY:
        return Settlement(job.jid, job.token, "fail", failure, waited(held))
    args = max(0.0, delay), *failure
    return Settlement(job.jid, job.token, "retry", args, waited(held))


def crashed(held: Held, message: str, text: str) -> Settlement:
    """Settle a job that has killed its process."""
    job = held.job
    log_event(logging.ERROR, "crashed", jid=job.jid, why=message)
    args = CRASH_LIMIT, failure_report.WORKER_CRASH, with_stacks(message, text)
    return Settlement(job.jid, job.token, "crash", args, waited(held))


def waited(held: Held) -> float | None:
    """Return the seconds from the hand-out of a job to its run; None if it was not begun."""
    return held.given - held.since if held.has_begun else None


def with_stacks(message: str, text: str) -> str:
    """Return the failure message, followed by the stacks if there are any."""
    return failure_report.truncate(f"{message}\n\n{text}" if text else message)
