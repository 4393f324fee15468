"""Settlements of jobs that were not run to their end: returned, crashed, or killed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker import failure_report
from django_qless.worker.execution import NO_RETRY
from django_qless.worker.log import log_event

if TYPE_CHECKING:
    from django_qless.worker.pools.shared_state import HeldJob

CRASH_LIMIT = 3
"""Number of times that a job may kill its process and still be tried again."""


def released(jid: str, token: str, seconds_held: float | None = None) -> Settlement:
    """Return the job to its queue at once, with nothing used up.

    `seconds_held` is set if its run was started.
    """
    return Settlement(jid, token, "release", (0,), seconds_held)


def died(
    jid: str,
    token: str,
    pid: int,
    status: int,
    stacks: str = "",
    *,
    seconds_held: float | None,
) -> Settlement:
    """Settle a job whose process died by itself: the job crashed.

    `status` is an exit code, or the number of a signal below zero; `stacks` is what the
    process has written at its end. `seconds_held` is the time before the run.
    """
    message = failure_report.crash_message(pid, status)
    return crashed(jid, token, message, stacks, seconds_held)


def blocked(
    held: HeldJob, pid: int, seconds: float, stacks: str, *, sure: bool
) -> Settlement:
    """Settle a job that has, perhaps, blocked an event loop for so many seconds."""
    whose = f"the event loop of process {pid} for {seconds:.0f} s"
    message = f"The job blocked {whose}: the process was killed."
    if not sure:
        message = f"The job, or another beside it, blocked {whose}, which was killed."
    return crashed(held.jid, held.token, message, stacks, held.seconds_held)


def overran(held: HeldJob, pid: int, stacks: str) -> Settlement:
    """Settle a job that ran beyond its hard limit."""
    level = logging.ERROR if held.delay < 0 else logging.WARNING
    log_event(level, "hard timeout, killing", jid=held.jid, pid=pid, seconds=held.hard)
    args = (
        failure_report.TIMEOUT,
        with_stacks(failure_report.overrun_message(held.hard), stacks),
    )
    if held.delay == NO_RETRY:
        return Settlement(held.jid, held.token, "fail", args, held.seconds_held)
    delay = max(0.0, held.delay)
    return Settlement(held.jid, held.token, "retry", (delay, *args), held.seconds_held)


def crashed(
    jid: str, token: str, message: str, stacks: str, seconds_held: float | None
) -> Settlement:
    """Settle a job that has killed its process."""
    log_event(logging.ERROR, "crashed", jid=jid, why=message)
    args = CRASH_LIMIT, failure_report.WORKER_CRASH, with_stacks(message, stacks)
    return Settlement(jid, token, "crash", args, seconds_held)


def with_stacks(message: str, stacks: str) -> str:
    """Return the failure message, followed by the stacks if there are any."""
    return failure_report.truncate(f"{message}\n\n{stacks}" if stacks else message)
