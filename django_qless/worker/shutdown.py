"""The signals that a worker obeys, as a table, and the way to its end."""

from __future__ import annotations

import enum
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class Stage(enum.IntEnum):
    """How far the worker is on its way to the end."""

    RUNNING = 0
    """It takes jobs."""
    DRAINING = 1
    """It takes no more jobs; the running ones may end in their time."""
    STOPPING = 2
    """What still runs is killed and handed back."""


SIGNALS = {
    signal.SIGTERM: (
        "finish the running jobs, then stop; what takes longer than the timeout is "
        "handed back; again: stop at once"
    ),
    signal.SIGINT: "the same (Ctrl-C)",
}


def described() -> str:
    """Return the table for people."""
    return "\n".join(f"{known.name[3:]:6}{words}" for known, words in SIGNALS.items())


class Shutdown:
    """Where the worker stands between running and ended.

    The first signal begins a drain that lasts at most `timeout` seconds, the second
    ends it.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.stage = Stage.RUNNING
        self.deadline: float | None = None

    def drain(self) -> None:
        """Take no more jobs."""
        if self.stage is Stage.RUNNING:
            self.stage = Stage.DRAINING
            self.deadline = time.monotonic() + self.timeout

    def stop(self) -> None:
        """Stop at once."""
        self.stage = Stage.STOPPING
        self.deadline = None

    def signalled(self) -> None:
        """Take in a TERM or INT."""
        if self.stage is Stage.RUNNING:
            self.drain()
        else:
            self.stop()

    def check_time(self) -> None:
        """Stop if the drain has taken too long."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.stop()


class Signals:
    """Receives this process's signals as bytes of a pipe, which a selector can watch.

    A context manager: handlers and wake-up pipe are put back at the end.
    """

    WATCHED = (*SIGNALS, signal.SIGCHLD)

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        for end in (self.reader, self._writer):
            os.set_blocking(end, False)

    def __enter__(self) -> Signals:
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._handlers = {
            known: signal.signal(known, _remember) for known in self.WATCHED
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for known, handler in self._handlers.items():
            signal.signal(known, handler)
        signal.set_wakeup_fd(self._wakeup)
        self.close()

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.reader)
        os.close(self._writer)

    def received(self) -> list[signal.Signals]:
        """Return the signals that came since the last call, in their order."""
        try:
            return [signal.Signals(number) for number in os.read(self.reader, 4096)]
        except BlockingIOError:
            return []


def _remember(number: int, frame: FrameType | None) -> None:
    """Do nothing: the byte in the pipe is what counts."""
