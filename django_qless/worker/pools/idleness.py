"""Since when has nothing run? For workers that end when there is nothing to do."""

from __future__ import annotations

import math


class Idleness:
    """Measures for how long no job has run, by looking at a counter now and then."""

    LOOKS = 20
    """How often it looks in the time that it measures: so exact it is."""

    def __init__(self, limit: float | None) -> None:
        """`limit` in seconds; None: never ask."""
        self._limit = math.inf if limit is None else limit
        self._since = -math.inf
        self._runs = -1
        #: When to look (monotonic).
        self.due = math.inf if limit is None else -math.inf

    def look(self, now: float, *, runs: int, busy: bool) -> bool:
        """Return whether nothing has run for too long.

        `runs` is how many runs have begun so far; `busy`, whether one is under way, or
        something else is that is not to count.
        """
        if busy or runs != self._runs:
            self._since, self._runs = now, runs
        self.due = min(now + self._limit / self.LOOKS, self._since + self._limit)
        return now - self._since >= self._limit
