"""How many jobs a crew reserves: as many as it can run, and short ones beyond that."""

from __future__ import annotations

# A job that takes longer, in seconds, is reserved only when it can be started at once.
SHORT = 0.005

# Short jobs are held for so many seconds of work, so that nobody waits for a round trip.
# When half of it is done, more is asked for.
AHEAD = 0.010
MOST_AHEAD = 200

# From so many jobs, or after so many seconds, a pace is learned.
ENOUGH, LONG_ENOUGH = 10, 0.01


class Appetite:
    """Learns from the jobs that have ended how many are to be held beyond the running.

    Starts with none and doubles; falls to none as soon as jobs take long, on average.
    """

    def __init__(self) -> None:
        #: How many jobs to hold beyond those that run.
        self.ahead = 0
        #: How long the latest jobs took, on average, in seconds; None: not known yet.
        self.each: float | None = None
        self._ended = 0
        self._seconds = 0.0
        self._since = 0.0

    @property
    def low(self) -> int:
        """With so few jobs waiting, or fewer, more are to be reserved."""
        return self.ahead // 2

    def learn(self, ended: int, seconds: float, now: float) -> None:
        """Take in how many jobs have ended so far, and how long they took together.

        `now` is on the monotonic clock.
        """
        fresh, passed = ended - self._ended, now - self._since
        if fresh < 1 or (fresh < ENOUGH and passed < LONG_ENOUGH):
            return
        self.each = (seconds - self._seconds) / fresh
        if self.each > SHORT:
            self.ahead = 0
        else:
            fitting = int(AHEAD * fresh / passed)
            self.ahead = max(0, min(fitting, 2 * self.ahead + ENOUGH, MOST_AHEAD))
        self._ended, self._seconds, self._since = ended, seconds, now

    def rest(self, now: float) -> None:
        """Take in that there was nothing to do until now."""
        self._since = now

    def stop_hoarding(self) -> None:
        """Take in that a job has turned out to be slow: others had to wait for it."""
        self.ahead = 0
