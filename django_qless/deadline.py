"""The soft timeout of a job: an exception in the job when its time is up."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from django_qless.exceptions import JobTimeout

T = TypeVar("T")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise JobTimeout in the block when it has run for so many seconds.

    An alarm signal does it, so it works in the main thread only, and it waits for code
    in C to come back; elsewhere the block runs without a limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise JobTimeout(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def awaited_within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    """Return the result; cancel and raise JobTimeout when time is up."""
    task = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    task.cancel()
    await asyncio.wait({task})
    if task.cancelled():
        raise JobTimeout(seconds or 0)
    # The job caught the cancellation: what it makes of it counts.
    return task.result()
