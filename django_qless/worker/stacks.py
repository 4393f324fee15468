"""Stack dumps of the parent and its children, on request.

A child's stacks are written by faulthandler, in C, into an unnamed file that it shares with
its parent, so they come even while a job holds the GIL. The parent reads it a moment later.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import os
import signal
import sys
import tempfile
import traceback
from typing import TYPE_CHECKING, Any, TextIO

from django_qless.worker.log import log_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

SIGNAL = signal.SIGUSR1
"""Makes a child write its stacks."""

ANSWER_TIME = 0.3
"""Seconds that children have to do so."""

MAX_READ = 1024 * 1024
"""Bytes read of one child."""


class DumpFile:
    """An unnamed file for the dumps of a child, shared across the fork."""

    def __init__(self, number: int | None = None) -> None:
        """`number` is the descriptor of one that another process has made."""
        if number is not None:
            self.number = number
        elif hasattr(os, "memfd_create"):
            self.number = os.memfd_create("stacks")
        else:
            with tempfile.TemporaryFile() as file:
                self.number = os.dup(file.fileno())

    @property
    def has_text(self) -> bool:
        """True if anything has been written since the last time."""
        return os.fstat(self.number).st_size > 0

    def take(self) -> str:
        """Return the text written since the last `take`."""
        text = os.pread(self.number, MAX_READ, 0)
        os.ftruncate(self.number, 0)
        # All writers share this position in the file.
        os.lseek(self.number, 0, os.SEEK_SET)
        return text.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Close it, in this process."""
        os.close(self.number)


def enable_dumps(file: DumpFile) -> None:
    """In a child's main thread: write stacks here when SIGNAL comes, or at a crash.

    The waiting tasks follow, which Python writes: between two lines of the main thread, or
    while that waits.
    """

    def handle(*signalled: object) -> None:
        with (
            contextlib.suppress(Exception),
            open(file.number, "a", closefd=False) as to,
        ):
            write_tasks(to)

    faulthandler.enable(file.number)
    # Python's handler first: faulthandler chains to it.
    faulthandler.unregister(SIGNAL)
    signal.signal(SIGNAL, handle)
    faulthandler.register(SIGNAL, file.number, chain=True)


def write_tasks(to: TextIO) -> None:
    """Write the stacks of waiting asyncio tasks, which are on no thread's stack."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    for each in gc.get_objects():
        # Not isinstance, which would evaluate lazy objects.
        if issubclass(type(each), asyncio.Task) and not each.done():
            print(f"\nTask {each.get_name()} (most recent call first):", file=to)
            for frame in reversed(list(_frames_of(each.get_coro()))):
                code = frame.f_code
                where = f'File "{code.co_filename}", line {frame.f_lineno}'
                print(f"  {where} in {code.co_name}", file=to)


def _frames_of(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine, and of the coroutines that it awaits."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", getattr(coroutine, "gi_frame", None))
        if frame is None:
            return
        yield frame
        coroutine = getattr(coroutine, "cr_await", None)


def log_stacks(texts: Mapping[int, str]) -> None:
    """Log the parent's stacks, and those of its children by process id."""
    own = "the parent:\n" + "".join(traceback.format_stack())
    for pid, text in {os.getpid(): own, **texts}.items():
        log_lines(logging.WARNING, "stacks", {"pid": pid}, below=text)
