"""Until when the locks on jobs in hand hold, also for a process that was suspended.

A process that is stopped, or whose machine is, notices nothing of it: when it goes on,
others may have its jobs. So each job is looked at right before it starts. Times are those
of a clock that goes on meanwhile; the server's are only compared with each other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_qless.worker.pools import board as boards

if TYPE_CHECKING:
    from django_qless.core import Settled
    from django_qless.worker.pools.board import Board

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return the seconds since the machine was started, suspended or not."""
    return time.clock_gettime(CLOCK)


class Term:
    """The time for which the locks hold that came with one reply."""

    __slots__ = ("length", "shown", "until")

    def __init__(
        self,
        until: float = float("inf"),
        length: float = 0.0,
        shown: float = float("inf"),
    ) -> None:
        """They hold until then, and for `length` seconds after each heartbeat."""
        self.until = until
        self.length = length
        #: Since when the parent sees the jobs on the board, and renews their locks.
        self.shown = shown

    @property
    def values(self) -> tuple[float, float, float]:
        """What another process needs to make the same."""
        return self.until, self.length, self.shown

    def holds(self, board: Board) -> bool:
        """Return whether the locks hold now, for all that is known here."""
        now = boottime()
        if now < self.until:
            return True
        renewed = board.seconds[boards.RENEWED]
        return self.shown <= renewed and now < renewed + self.length


class ServerTime:
    """Knows when, by our clock, the server has made a call at the earliest."""

    def __init__(self) -> None:
        self._difference = float("-inf")

    def term(self, settled: Settled, asked: float, *, waited: bool) -> Term:
        """Return for how long the locks hold that came with this reply.

        `asked` is when the request was sent. If it waited at the server, the call before
        it says more about when it was made.
        """
        made = asked
        if waited:
            made = max(asked, min(settled.now + self._difference, boottime()))
        else:
            self._difference = asked - settled.now
        length = lock_length(settled)
        return Term(made + length, length)


def lock_length(settled: Settled) -> float:
    """Return for how many seconds the shortest lock was given; 0.0 without jobs."""
    expires = min((job.expires for job in settled.jobs), default=settled.now)
    return expires - settled.now
