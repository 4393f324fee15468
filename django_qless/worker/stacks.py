"""Stack dumps on request: what the parent and its children are doing just now.

A child's stacks are written by a handler in C into a file that it shares with its parent,
so they come also while a job holds the interpreter. The file has no name, and is read by
the parent a moment later.
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

from django_qless.worker.contexts import awaited_in
from django_qless.worker.log import event, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from django_qless.core import Client
    from django_qless.worker.pools.process import Process

SIGNAL = signal.SIGUSR1
"""Has a child write its stacks."""

MOMENT = 0.3
"""Seconds that children have for it."""

KINDS = ("cr", "gi", "ag")
"""How the attributes begin of coroutines, generators, asynchronous generators."""

MOST_BYTES = 1024 * 1024
MOST_KEPT = 64 * 1024
"""Bytes read of one child, and bytes that the server keeps of all."""


class DumpFile:
    """What a child has written; a file without a name, shared across the fork."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.number = os.memfd_create("stacks")
        else:
            with tempfile.TemporaryFile() as file:
                self.number = os.dup(file.fileno())

    @property
    def has_text(self) -> bool:
        """Whether anything has been written since the last time."""
        return os.fstat(self.number).st_size > 0

    def take(self) -> str:
        """Return what has been written since the last time."""
        return _take(self.number)

    def close(self) -> None:
        """Close it, in this process."""
        os.close(self.number)


def _take(file: int) -> str:
    text = os.pread(file, MOST_BYTES, 0)
    if text:
        os.ftruncate(file, 0)
        # All who write share this place in the file.
        os.lseek(file, 0, os.SEEK_SET)
    return text.decode("utf-8", "replace").strip()


# The child's side.


class _Answer:
    """Where this process writes."""

    file = -1


def answer(file: int) -> None:
    """In a child: from now on write the stacks into this file when asked.

    Those of a fatal error as well.
    """
    _Answer.file = file
    faulthandler.enable(file)
    faulthandler.register(SIGNAL, file, chain=True)
    answer_also(write_tasks)


def file() -> int:
    """Return where this child writes: for `answer` in a process that it forks."""
    return _Answer.file


def take() -> str:
    """Return what this child, and what it has forked, have written here lately."""
    return _take(_Answer.file)


def answer_also(write: Callable[[TextIO], object]) -> None:
    """In a child's main thread: when asked, write this as well (in Python, so later).

    It is called between two lines of the main thread, or when that waits. By default it
    is `write_tasks`.
    """

    def handle(*signalled: object) -> None:
        with (
            contextlib.suppress(Exception),
            open(_Answer.file, "a", closefd=False) as to,
        ):
            write(to)

    faulthandler.unregister(SIGNAL)
    signal.signal(SIGNAL, handle)
    faulthandler.register(SIGNAL, _Answer.file, chain=True)


def write_tasks(to: TextIO) -> None:
    """Write where the asyncio tasks of all threads wait: they are on no thread's stack."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    for each in gc.get_objects():
        # Not isinstance: it would have lazy objects do what they are lazy about.
        if issubclass(type(each), asyncio.Task) and not each.done():
            print(f"\nTask {each.get_name()} (most recent call first):", file=to)
            for frame in reversed(list(frames_of(each.get_coro()))):
                code = frame.f_code
                where = f'File "{code.co_filename}", line {frame.f_lineno}'
                print(f"  {where} in {code.co_name}", file=to)


def frames_of(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine, and of what it awaits, and so on."""
    while coroutine is not None:
        kind = next((kind for kind in KINDS if hasattr(coroutine, f"{kind}_frame")), "")
        frame = getattr(coroutine, f"{kind}_frame", None)
        if frame is None:
            return
        yield frame
        if frame.f_code is awaited_in.__code__:
            coroutine = frame.f_locals.get("coroutine")
        else:
            inner = "gi_yieldfrom" if kind == "gi" else f"{kind}_await"
            coroutine = getattr(coroutine, inner)


# The parent's side.


class Stacks:
    """Asks children for their stacks, and tells them a moment later."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._asked: list[Process] = []
        self._keep = False
        #: When to look at what they wrote (monotonic); infinity if nobody was asked.
        self.due = math.inf

    def ask(self, children: Iterable[Process], *, keep: bool = False) -> None:
        """Ask these children; with `keep`, the server is to have the result."""
        for child in children:
            child.dump()
            if child not in self._asked:
                self._asked.append(child)
        self._keep = self._keep or keep
        self.due = min(self.due, time.monotonic() + MOMENT)

    def tell(self, children: Iterable[Process]) -> None:
        """Log the stacks of those that were asked and are still among the children."""
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
        if self._keep:
            self._keep = False
            self._store("\n\n".join(f"pid {pid}: {parts[pid]}" for pid in parts))

    def tell_at_once(self, children: Iterable[Process]) -> None:
        """Ask, wait for the answers, and log them: for the worker's last moment."""
        present = list(children)
        self.ask(present)
        time.sleep(MOMENT)
        self.tell(present)

    def _store(self, text: str) -> None:
        kept = text.encode("utf-8", "replace")[:MOST_KEPT].decode("utf-8", "ignore")
        try:
            self._client.keep_stacks(self._worker, kept)
        except Exception as error:  # noqa: BLE001  they are in the log
            event(logging.WARNING, "stacks not stored", error=error)
