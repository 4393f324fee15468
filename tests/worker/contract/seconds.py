"""A cron that ticks each second: the real one has no field for them."""

from __future__ import annotations


class EverySecond:
    """Answers as Cron does."""

    def next(self, after: float) -> int:
        """Return the next whole second."""
        return int(after // 1) + 1

    def last(self, after: float, until: float) -> int | None:
        """Return the last whole second of this time."""
        found = int(until // 1)
        return found if found > after else None
