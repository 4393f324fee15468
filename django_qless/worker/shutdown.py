"""Signals that control a worker, as a table, and the stages of its shutdown."""

from __future__ import annotations

import enum
import signal
import time
from typing import NamedTuple

GRACE = 5.0
"""Seconds at most that jobs have to handle ShuttingDown after the timeout."""


class Stage(enum.IntEnum):
    """Stages of a worker's shutdown."""

    RUNNING = 0
    """It takes jobs, unless it is quiet."""
    DRAINING = 1
    """It takes no more jobs; the running ones may end by themselves."""
    INTERRUPTING = 2
    """The exception ShuttingDown is raised in jobs that still run."""
    STOPPING = 3
    """Jobs that still run are killed and handed back."""


class ControlCommand(enum.Enum):
    """Commands to a worker, by a signal or through the server."""

    STOP = "stop"
    ABORT = "abort"
    QUIET = "quiet"
    RESUME = "resume"
    DUMP = "dump"
    RELOAD = "reload"


class SignalMeaning(NamedTuple):
    """Signals of one meaning."""

    names: tuple[str, ...]
    command: ControlCommand
    summary: str


TABLE = (
    SignalMeaning(
        ("TERM", "INT"),
        ControlCommand.STOP,
        "take no more jobs, let the running ones end, then stop; what takes longer "
        "than the timeout is interrupted and handed back; again: stop at once",
    ),
    SignalMeaning(("QUIT",), ControlCommand.ABORT, "log all stacks and stop at once"),
    SignalMeaning(
        ("TSTP", "USR2"),
        ControlCommand.QUIET,
        "take no more jobs for now, but keep running",
    ),
    SignalMeaning(("CONT",), ControlCommand.RESUME, "take jobs again"),
    SignalMeaning(
        ("USR1", "TTIN"), ControlCommand.DUMP, "log the stacks of parent and children"
    ),
    SignalMeaning(
        ("HUP",),
        ControlCommand.RELOAD,
        "let the running jobs end, then restart in place: new code, same pid",
    ),
)

SIGNALS = {
    signal.Signals[f"SIG{name}"]: meaning.command
    for meaning in TABLE
    for name in meaning.names
}


def signals_help() -> str:
    """Return the table for people."""
    return "\n".join(f"{', '.join(each.names):12}{each.summary}" for each in TABLE)


class Shutdown:
    """The stage and the deadline of a worker's shutdown.

    The first STOP begins a drain that lasts at most `timeout` seconds, the second ends
    it. A drain for a reload lasts at most `reload_timeout`; None: as long as it takes.
    """

    def __init__(self, timeout: float, reload_timeout: float | None = None) -> None:
        self.timeout = timeout
        self.reload_timeout = reload_timeout
        self.stage = Stage.RUNNING
        self.quiet = False
        #: When the next stage begins (monotonic), if it does by itself.
        self.deadline: float | None = None
        #: True if the worker restarts in place at the end.
        self.reexec = False

    @property
    def state(self) -> str:
        """The state for people: running, quiet, draining or stopping."""
        if self.stage is Stage.RUNNING:
            return "quiet" if self.quiet else "running"
        return "draining" if self.stage is Stage.DRAINING else "stopping"

    @property
    def takes_jobs(self) -> bool:
        """True while jobs may be reserved and begun."""
        return self.stage is Stage.RUNNING and not self.quiet

    def drain(self) -> None:
        """Take no more jobs, and end after the running ones."""
        if self.stage is Stage.RUNNING:
            self.stage = Stage.DRAINING
            self.deadline = time.monotonic() + self.timeout

    def reload(self) -> None:
        """Drain, then restart in place."""
        if self.stage is Stage.RUNNING:
            self.stage = Stage.DRAINING
            self.reexec = True
            if self.reload_timeout is not None:
                self.deadline = time.monotonic() + self.reload_timeout

    def request_stop(self) -> None:
        """Drain at the first request, stop at once at the second.

        During the drain for a reload the first request ends the worker in the usual time.
        """
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

    def advance(self) -> None:
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
