"""Timers of soft timeouts: a signal in the main thread, else a timer thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from django_qless.core.monotonic import monotonic

# 0 would disarm the system's timer.
MIN_SECONDS = 1e-6

NEVER = float("inf")


class Alarm:
    """Calls `callback` in the main thread after some seconds, unless it is cancelled.

    What the callback raises is raised there as soon as Python code runs: code in C is
    not disturbed, but a system call that waits is interrupted. Other users of SIGALRM,
    such as an outer Alarm or the project, get their signal in time, and their handler
    and timer back afterwards. Use it in the main thread only.
    """

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self._seconds = seconds
        self._callback = callback
        self._is_set = False

    def set(self) -> None:
        """Start the timer."""
        # Handler and `cancel` need all of this, so it is there before the timer starts.
        now = monotonic()
        remaining, self._interval = signal.getitimer(signal.ITIMER_REAL)
        self._due = now + self._seconds
        self._outer_due = now + remaining if remaining else NEVER
        self._outer_handler = signal.getsignal(signal.SIGALRM)
        self._is_set = True
        signal.signal(signal.SIGALRM, self._on_signal)
        self._arm(now)

    def cancel(self) -> None:
        """Stop the timer. May be called again."""
        if not self._is_set:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._outer_handler)
        self._is_set = False
        if self._outer_due != NEVER:
            rest = max(self._outer_due - monotonic(), MIN_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, rest, self._interval)

    def _arm(self, now: float) -> None:
        first = min(self._due, self._outer_due)
        if first != NEVER:
            signal.setitimer(signal.ITIMER_REAL, max(first - now, MIN_SECONDS))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        is_due, is_outer_due = self._due <= now, self._outer_due <= now
        if is_due:
            self._due = NEVER
        if is_outer_due:
            self._outer_due = now + self._interval if self._interval else NEVER
        self._arm(now)
        if is_outer_due and callable(self._outer_handler):
            self._outer_handler(number, frame)
        if is_due:
            self._callback()


class Deadline:
    """A callback of the timer thread, unless it is cancelled."""

    __slots__ = ("_timers", "callback", "due")

    def __init__(
        self, timers: TimerThread, due: float, callback: Callable[[], None]
    ) -> None:
        self._timers = timers
        #: Knows by itself whether it is called too late.
        self.callback = callback
        #: On the monotonic clock.
        self.due = due

    def cancel(self) -> None:
        """Do not call any more. May be called again."""
        self._timers.deadlines.pop(self, None)


class TimerThread:
    """One thread that serves the deadlines of all others.

    There are never more deadlines than threads, so it searches all of them for the next
    one. To set or cancel a deadline costs almost nothing: the thread is woken only for
    one that comes before the one it waits for.
    """

    def __init__(self) -> None:
        #: A dict for its atomic pop; the values mean nothing.
        self.deadlines: dict[Deadline, None] = {}
        self._thread: threading.Thread | None = None
        self.reset()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Deadline:
        """Make the timer thread call this after so many seconds."""
        deadline = Deadline(self, monotonic() + seconds, callback)
        self.deadlines[deadline] = None
        if deadline.due < self._wakes_at:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="qless timers", daemon=True
                    )
                    self._thread.start()
                self._changed.notify()
        return deadline

    @property
    def is_used(self) -> bool:
        """True if it has a thread or deadlines."""
        return self._thread is not None or bool(self.deadlines)

    def _run(self) -> None:
        while True:
            with self._changed:
                now = monotonic()
                waiting = list(self.deadlines)
                next_due = min((each.due for each in waiting), default=NEVER)
                if next_due > now:
                    self._wakes_at = next_due
                    self._changed.wait(min(next_due - now, threading.TIMEOUT_MAX))
                    self._wakes_at = NEVER
                    continue
            for deadline in waiting:
                if deadline.due <= now:
                    deadline.cancel()
                    deadline.callback()

    def reset(self) -> None:
        """Start over in a forked process, which does not have the thread."""
        self.deadlines.clear()
        self._changed = threading.Condition()
        self._thread = None
        #: When the thread wakes by itself; NEVER also while it is awake, because it may
        #: have searched already and must be notified of every new deadline.
        self._wakes_at = NEVER
