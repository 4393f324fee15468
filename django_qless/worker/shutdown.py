"""The signals that a worker obeys, as a table, and the way to its end."""

from __future__ import annotations

import enum
import os
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType, TracebackType

GRACE = 5.0
"""Seconds that jobs have at most to end by ShuttingDown, when the timeout is over."""


class Stage(enum.IntEnum):
    """How far the worker is on its way to the end."""

    RUNNING = 0
    """It takes jobs, unless it is quiet."""
    DRAINING = 1
    """It takes no more jobs; the running ones may end in their time."""
    INTERRUPTING = 2
    """What still runs is told to end by the exception ShuttingDown."""
    STOPPING = 3
    """What still runs is killed and handed back."""


class Order(enum.Enum):
    """What a worker can be asked to do, by a signal or through the server."""

    STOP = "stop"
    ABORT = "abort"
    QUIET = "quiet"
    RESUME = "resume"
    DUMP = "dump"
    RELOAD = "reload"


class Known(NamedTuple):
    """Signals that mean the same."""

    names: tuple[str, ...]
    order: Order
    words: str


TABLE = (
    Known(
        ("TERM", "INT"),
        Order.STOP,
        "take no more jobs, let the running ones end, then stop; what takes longer "
        "than the timeout is interrupted and handed back; again: stop at once",
    ),
    Known(("QUIT",), Order.ABORT, "log all stacks and stop at once"),
    Known(("TSTP", "USR2"), Order.QUIET, "take no more jobs for now, go on living"),
    Known(("CONT",), Order.RESUME, "take jobs again"),
    Known(("USR1", "TTIN"), Order.DUMP, "log the stacks of parent and children"),
    Known(
        ("HUP",),
        Order.RELOAD,
        "let the running jobs end, then execute the worker anew: new code, same pid",
    ),
)

SIGNALS = {
    signal.Signals[f"SIG{name}"]: known.order for known in TABLE for name in known.names
}


def described() -> str:
    """Return the table for people."""
    return "\n".join(f"{', '.join(known.names):12}{known.words}" for known in TABLE)


class Shutdown:
    """Where the worker stands between running and ended.

    The first STOP begins a drain that lasts at most `timeout` seconds, the second ends
    it, unless it comes within `echo` seconds. A drain for a reload lasts at most
    `reload_timeout`; None: as long as it takes.
    """

    def __init__(
        self, timeout: float, reload_timeout: float | None = None, echo: float = 0.0
    ) -> None:
        self.timeout = timeout
        self.reload_timeout = reload_timeout
        self.echo = echo
        self._asked = float("-inf")
        self.stage = Stage.RUNNING
        self.quiet = False
        #: When the next stage begins (monotonic), if it does by itself.
        self.deadline: float | None = None
        #: Whether the worker is to be executed anew at the end.
        self.reexec = False

    @property
    def state(self) -> str:
        """The one word for people: running, quiet, draining or stopping."""
        if self.stage is Stage.RUNNING:
            return "quiet" if self.quiet else "running"
        return "draining" if self.stage is Stage.DRAINING else "stopping"

    def drain(self) -> None:
        """Take no more jobs, and end when the running ones have ended."""
        if self.stage is Stage.RUNNING:
            self.stage = Stage.DRAINING
            self.deadline = time.monotonic() + self.timeout

    def reload(self) -> None:
        """Drain, to be executed anew."""
        if self.stage is Stage.RUNNING:
            self.stage = Stage.DRAINING
            self.reexec = True
            if self.reload_timeout is not None:
                self.deadline = time.monotonic() + self.reload_timeout

    def ask_to_stop(self) -> None:
        """Drain at the first time, stop at once at the second.

        Who asks during the drain for a reload wants an end, in the usual time.
        """
        now = time.monotonic()
        if now < self._asked + self.echo:
            return
        self._asked = now
        if self.reexec and self.stage is Stage.DRAINING:
            self.reexec = False
            self.deadline = time.monotonic() + self.timeout
        elif self.stage is Stage.RUNNING:
            self.drain()
        else:
            self.stop()

    def stop(self) -> None:
        """Stop at once, for good."""
        self.reexec = False
        self._kill()

    def check_time(self) -> None:
        """Go on to the next stage if this one has taken too long."""
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        grace = min(GRACE, self.timeout)
        if self.stage is Stage.DRAINING and grace > 0:
            self.stage = Stage.INTERRUPTING
            self.deadline = time.monotonic() + grace
        else:
            self._kill()

    def _kill(self) -> None:
        self.stage = Stage.STOPPING
        self.deadline = None


class Signals:
    """Receives this process's signals as bytes of a pipe, which a selector can watch.

    A context manager: handlers and wake-up pipe are put back at the end.
    """

    WATCHED = (*SIGNALS, signal.SIGCHLD)

    def __init__(self) -> None:
        #: Whether signals are held back from the end on: for the next program here.
        self.hold_back = False
        self.reader, self._writer = os.pipe()
        for end in (self.reader, self._writer):
            os.set_blocking(end, False)

    def __enter__(self) -> Signals:
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._handlers = {
            known: signal.signal(known, _remember) for known in self.WATCHED
        }
        # A worker that was executed anew has not heard them while it was loading.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.WATCHED)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.hold_back:
            # The old handlers would end the process before it can execute anew.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for known, handler in self._handlers.items():
            signal.signal(known, handler)
        signal.set_wakeup_fd(self._wakeup)
        self.close()

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.reader)
        os.close(self._writer)

    def received(self) -> list[signal.Signals]:
        """Return the signals that came since the last call, in their order.

        Save that CONT comes last: one that interrupts the handler of the signal before
        it writes its byte first, and quiet would be the last word.
        """
        try:
            numbers = os.read(self.reader, 4096)
        except BlockingIOError:
            return []
        return sorted(map(signal.Signals, numbers), key=signal.SIGCONT.__eq__)


def _remember(number: int, frame: FrameType | None) -> None:
    """Do nothing: the byte in the pipe is what counts."""
