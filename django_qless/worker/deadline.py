"""An alarm clock for the main thread: it rings there even inside a system call."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType

# To a timer 0 means never.
AT_ONCE = 1e-6

NEVER = float("inf")


class Alarm:
    """Calls `ring` in the main thread after so many seconds, unless it is cancelled.

    What `ring` raises is raised there, as soon as Python code runs: code in C is not
    disturbed, but a system call that waits is cut short. Whoever used the alarm signal
    before, another Alarm or the project itself, gets it in time, and has it back
    afterwards. Made, set, cancelled and rung in the main thread only.
    """

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self._seconds = seconds
        self._ring = ring
        self._is_set = False

    def set(self) -> None:
        """Begin to wait."""
        # All that the signal handler and `cancel` need is there before it can ring.
        now = time.monotonic()
        remaining, self._interval = signal.getitimer(signal.ITIMER_REAL)
        self._due = now + self._seconds
        self._others = now + remaining if remaining else NEVER
        self._handler = signal.getsignal(signal.SIGALRM)
        self._is_set = True
        signal.signal(signal.SIGALRM, self._on_signal)
        self._arm(now)

    def cancel(self) -> None:
        """Do not ring any more. May be called again."""
        if not self._is_set:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        self._is_set = False
        if self._others != NEVER:
            rest = max(self._others - time.monotonic(), AT_ONCE)
            signal.setitimer(signal.ITIMER_REAL, rest, self._interval)

    def _arm(self, now: float) -> None:
        first = min(self._due, self._others)
        if first != NEVER:
            signal.setitimer(signal.ITIMER_REAL, max(first - now, AT_ONCE))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        is_due, is_others = self._due <= now, self._others <= now
        if is_due:
            self._due = NEVER
        if is_others:
            self._others = now + self._interval if self._interval else NEVER
        self._arm(now)
        if is_others and callable(self._handler):
            self._handler(number, frame)
        if is_due:
            self._ring()
