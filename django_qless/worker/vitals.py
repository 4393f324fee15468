"""Signs of life of a worker for those around it: health file, systemd, process title."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_qless.worker import systemd
from django_qless.worker.health import HealthFile
from django_qless.worker.titles import title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.shutdown import Shutdown

NEVER = float("inf")

PACE = 2.0
"""Seconds from one sign of life to the next, at most, if anybody sees them."""

PAUSE = 1.0
"""Seconds from one sign to the next, at least, unless there is news."""

WORKING = ("running", "quiet")
ENDING = ("draining", "stopping")
RELOADING = "reloading"


class Vitals:
    """Shows what the worker's loop tells at each of its turns.

    A state is "running", "quiet", "draining" or "stopping"; a drain that ends in a new
    execution is shown as "reloading".
    """

    def __init__(self, options: WorkerOptions, shutdown: Shutdown) -> None:
        self.shutdown = shutdown
        self.due = NEVER
        """When the next sign has to be given, whatever happens: monotonic seconds."""
        self._systemd = systemd.Systemd()
        self._file: HealthFile | None = None
        if options.health_file is not None:
            self._file = HealthFile(options.health_file, options.name)
        is_seen = self._file or self._systemd.listens or title.wanted
        self._pace = min(PACE if is_seen else NEVER, self._systemd.watchdog or NEVER)
        self._queues = " ".join(options.queues)
        # What was shown last, when, and whether it has been called ready.
        self._state, self._running = "starting", 0
        self._shown_at = 0.0
        self._is_ready = False

    def begin(self) -> None:
        """Give the first sign, before the server is asked for anything.

        Raises CannotWork if the health file cannot be written.
        """
        if self._file:
            self._file.create()
        self._systemd.tell("WATCHDOG=1")
        self._shown_at = time.monotonic()
        self.due = self._shown_at + self._pace

    def turn(self, now: float, *, good: float, state: str, running: int) -> None:
        """Take in a turn of the loop, at the monotonic time `now`. Raises nothing.

        `good` is when the server last gave a good answer (0.0: never yet), `running` the
        number of running jobs.
        """
        if state in ENDING and self.shutdown.reexec:
            state = RELOADING
        becomes_ready = good > 0 and not self._is_ready and state in WORKING
        if state == self._state and not becomes_ready:
            if running != self._running:
                self.due = min(self.due, self._shown_at + PAUSE)
            if now < self.due:
                return
        if self._systemd.listens:
            self._systemd.tell(*self._lines(state, running, becomes_ready))
        if self._file:
            self._file.write(now, good, state, running)
        doing = "" if state == "running" else f"{state}, "
        title(f"[{self._queues}] {doing}{running} running")
        self._is_ready = (self._is_ready or becomes_ready) and state != RELOADING
        self._state, self._running = state, running
        self._shown_at = now
        self.due = now + self._pace

    def reloading(self) -> None:
        """Say that this process executes anew."""
        self.turn(time.monotonic(), good=0.0, state=RELOADING, running=0)

    def close(self) -> None:
        """Say that the worker ends."""
        self._systemd.tell("STOPPING=1")
        if self._file:
            self._file.remove()

    def _lines(self, state: str, running: int, becomes_ready: bool) -> Iterator[str]:
        """Return what systemd is to be told."""
        yield "WATCHDOG=1"
        yield systemd.status(f"{state}, {running} running")
        if becomes_ready:
            yield "READY=1"
        if state != self._state:
            if state == RELOADING:
                yield from systemd.reloading()
            elif state in ENDING:
                yield "STOPPING=1"
