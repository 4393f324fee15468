"""How a job is settled whose process has ended, or is ended, under it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker import failures
from django_qless.worker.execution import NO_RETRY
from django_qless.worker.log import event

if TYPE_CHECKING:
    from django_qless.worker.pools.board import Held

CRASH_LIMIT = 3
"""How many times a job may take its process with it and still be tried again."""


def died(
    jid: str,
    token: str,
    pid: int,
    status: int,
    stacks: str = "",
    *,
    in_hands: float | None,
) -> Settlement:
    """Return the verdict on a job whose process died by itself: that was its crash.

    `status` is an exit code, or the number of a signal below zero; `stacks` is what the
    process has written at its end. `in_hands` says how long the job was held unstarted.
    """
    return crashed(jid, token, failures.death_of(pid, status), stacks, in_hands)


def blocked(
    held: Held, pid: int, seconds: float, stacks: str, *, sure: bool
) -> Settlement:
    """Return the verdict on a job that has blocked an event loop for so many seconds."""
    whose = f"the event loop of process {pid} for {seconds:.0f} s"
    words = f"The job blocked {whose}: the process was killed."
    if not sure:
        words = f"The job, or another beside it, blocked {whose}, which was killed."
    return crashed(held.jid, held.token, words, stacks, held.in_hands)


def overran(held: Held, pid: int, stacks: str) -> Settlement:
    """Return the verdict on a job that ran longer than it may."""
    words = failures.overrun(held.hard)
    level = logging.ERROR if held.delay < 0 else logging.WARNING
    event(level, "hard timeout, killing", jid=held.jid, pid=pid, seconds=held.hard)
    message = message_of(words, stacks)
    if held.delay == NO_RETRY:
        args: tuple[str | float, ...] = (failures.TIMEOUT, message)
        return Settlement(held.jid, held.token, "fail", args, held.in_hands)
    args = (max(0.0, held.delay), failures.TIMEOUT, message)
    return Settlement(held.jid, held.token, "retry", args, held.in_hands)


def crashed(
    jid: str, token: str, words: str, stacks: str, in_hands: float | None
) -> Settlement:
    """Return the verdict on a job that has taken its process with it."""
    event(logging.ERROR, "crashed", jid=jid, why=words)
    args = (CRASH_LIMIT, failures.WORKER_CRASH, message_of(words, stacks))
    return Settlement(jid, token, "crash", args, in_hands)


def release(jid: str, token: str, in_hands: float | None = None) -> Settlement:
    """Return the verdict on a job that is not to blame: back, nothing used up.

    With `in_hands` it was started.
    """
    return Settlement(jid, token, "release", (0,), in_hands)


def message_of(words: str, stacks: str) -> str:
    """Return the message of the failure."""
    return failures.fitting(f"{words}\n\n{stacks}" if stacks else words)
