"""The child process that sweeps up outboxes, in the worker that leads the namespace.

It runs no jobs. To kill it at any moment does no harm: the server knows what was delivered.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import log_event
from django_qless.worker.pools.child_process import ChildProcess
from django_qless.worker.pools.shared_state import SharedState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Seconds before it is started again if it has died.
PAUSE = 5.0


class Sweeper:
    """Keeps one such process at work while it is wanted."""

    def __init__(self, run: Callable[[SharedState], None]) -> None:
        """`run` is called in the process."""
        self._run = run
        self._process: ChildProcess | None = None
        self._not_before = 0.0

    @property
    def is_running(self) -> bool:
        """True if there is such a process, as far as is known."""
        return self._process is not None

    @property
    def due(self) -> float:
        """Time to start it again (monotonic); infinity if it runs, or was never started."""
        is_dead = self._process is None and self._not_before
        return self._not_before if is_dead else math.inf

    def look(self, siblings: Iterable[ChildProcess], *, wanted: bool) -> None:
        """Start it if it is wanted, end it if it is not, notice if it has died."""
        if self._process is not None and self._process.watch():
            status = self._process.status
            log_event(logging.WARNING, "outbox sweeper ended", status=status)
            self._forget(time.monotonic() + PAUSE)
        if not wanted:
            self.stop()
        elif self._process is None and time.monotonic() >= self._not_before:
            self._process = ChildProcess(self._run, SharedState(1), siblings)
            log_event(logging.INFO, "sweeping outboxes", pid=self._process.pid)

    def stop(self) -> None:
        """End it, if it runs; return when it has ended."""
        if self._process is not None:
            self._process.kill()
            while not self._process.watch():
                time.sleep(0.001)
            self._forget(0.0)

    def _forget(self, not_before: float) -> None:
        assert self._process is not None
        self._process.close()
        self._process, self._not_before = None, not_before
