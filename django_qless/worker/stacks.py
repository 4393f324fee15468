"""Stack dumps of the parent and its children, on request.

A child's stacks are written by faulthandler, in C, into a file that it shares with its
parent, so they come even while a job holds the interpreter. The file has no name; the
parent reads it a moment later.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import math
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import TYPE_CHECKING, Any, TextIO

from django_qless.worker.interrupt import await_in_context
from django_qless.worker.log import log_event, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from django_qless.core import Client
    from django_qless.worker.pools.child_process import ChildProcess

SIGNAL = signal.SIGUSR1
"""Makes a child write its stacks."""

ANSWER_TIME = 0.3
"""Seconds that children have to do so."""

FRAME_PREFIXES = ("cr", "gi", "ag")
"""Prefixes of the attributes of coroutines, generators, asynchronous generators."""

MAX_READ = 1024 * 1024
MAX_STORED = 64 * 1024
"""Bytes read of one child, and bytes that the server stores of all."""


class DumpFile:
    """An unnamed file for the dumps of a child, shared across the fork."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
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
        return _take(self.number)

    def close(self) -> None:
        """Close it, in this process."""
        os.close(self.number)


def _take(file: int) -> str:
    text = os.pread(file, MAX_READ, 0)
    if text:
        os.ftruncate(file, 0)
        # All writers share this position in the file.
        os.lseek(file, 0, os.SEEK_SET)
    return text.decode("utf-8", "replace").strip()


# The child's side.

_file = -1


def enable_dumps(file: int) -> None:
    """In a child: from now on write stacks into this file when SIGNAL comes.

    Those of a fatal error as well.
    """
    global _file
    _file = file
    faulthandler.enable(file)
    faulthandler.register(SIGNAL, file, chain=True)
    also_write(write_tasks)


def take_dump() -> str:
    """Return recent dumps of this child, and of processes forked from it."""
    return _take(_file)


def also_write(write: Callable[[TextIO], object]) -> None:
    """In a child's main thread: write this after its stacks (in Python, so later).

    It is called between two lines of the main thread, or while that waits. By default
    this is `write_tasks`.
    """

    def handle(*signalled: object) -> None:
        with contextlib.suppress(Exception), open(_file, "a", closefd=False) as to:
            write(to)

    faulthandler.unregister(SIGNAL)
    signal.signal(SIGNAL, handle)
    faulthandler.register(SIGNAL, _file, chain=True)


def write_tasks(to: TextIO) -> None:
    """Write the stacks of waiting asyncio tasks, which are on no thread's stack."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    for each in gc.get_objects():
        # Not isinstance, which would evaluate lazy objects.
        if issubclass(type(each), asyncio.Task) and not each.done():
            print(f"\nTask {each.get_name()} (most recent call first):", file=to)
            for frame in reversed(list(frames_of(each.get_coro()))):
                code = frame.f_code
                where = f'File "{code.co_filename}", line {frame.f_lineno}'
                print(f"  {where} in {code.co_name}", file=to)


def frames_of(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine, and of what it awaits, and so on."""
    while coroutine is not None:
        kind = next((k for k in FRAME_PREFIXES if hasattr(coroutine, f"{k}_frame")), "")
        frame = getattr(coroutine, f"{kind}_frame", None)
        if frame is None:
            return
        yield frame
        if frame.f_code is await_in_context.__code__:
            coroutine = frame.f_locals.get("coroutine")
        else:
            inner = "gi_yieldfrom" if kind == "gi" else f"{kind}_await"
            coroutine = getattr(coroutine, inner)


# The parent's side.


class StackDumps:
    """Requests dumps from children, and logs them a moment later."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._asked: list[ChildProcess] = []
        self._stores = False
        #: When to read the answers (monotonic); infinity if there is no request.
        self.due = math.inf

    def request(self, children: Iterable[ChildProcess], *, store: bool = False) -> None:
        """Request dumps of these children; with `store`, send them to the server."""
        for child in children:
            child.dump()
            if child not in self._asked:
                self._asked.append(child)
        self._stores = self._stores or store
        self.due = min(self.due, time.monotonic() + ANSWER_TIME)

    def log(self, children: Iterable[ChildProcess]) -> None:
        """Log the dumps of the asked ones that are still among these children."""
        present = list(children)
        parts = {os.getpid(): "the parent:\n" + "".join(traceback.format_stack())}
        for child in self._asked:
            if child in present:
                excuse = "it is suspended" if child.suspended else "it did not answer"
                parts[child.pid] = child.stacks() or excuse
        for pid, text in parts.items():
            fields = {"worker": self._worker, "pid": pid}
            logger.warning(
                "stacks worker=%s pid=%d\n%s",
                *(self._worker, pid, text),
                extra={"action": "stacks", "fields": fields | {"text": text}},
            )
        self.due = math.inf
        self._asked.clear()
        if self._stores:
            self._stores = False
            self._store("\n\n".join(f"pid {pid}: {parts[pid]}" for pid in parts))

    def log_now(self, children: Iterable[ChildProcess]) -> None:
        """Request dumps, wait, and log them: for the worker's last moment."""
        present = list(children)
        self.request(present)
        time.sleep(ANSWER_TIME)
        self.log(present)

    def _store(self, text: str) -> None:
        stored = text.encode("utf-8", "replace")[:MAX_STORED].decode("utf-8", "ignore")
        try:
            self._client.keep_stacks(self._worker, stored)
        except Exception as error:  # noqa: BLE001  they are in the log
            log_event(logging.WARNING, "stacks not stored", error=error)
