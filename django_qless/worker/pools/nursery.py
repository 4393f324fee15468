"""When is a child that has died replaced? At once, unless they keep dying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.worker.pools import board as boards

if TYPE_CHECKING:
    from django_qless.worker.pools.process import Process

# Seconds to wait after the first child that could not even start; doubled for each more
# in a row, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0

# A child that has worked and died young was killed by its job, as a rule: the next one
# starts at once. Only after many in a row each has to wait, and not for long.
YOUNG, MANY, SHORT_PAUSE = 0.5, 10, 0.5


class Nursery:
    """Says when the next child may be started: at `due`, on the monotonic clock."""

    def __init__(self) -> None:
        self.due = 0.0
        self._failed_starts = 0
        self._young_deaths = 0

    def note(self, dead: Process, now: float) -> None:
        """Take in that a child has died by itself."""
        if not dead.board.words[boards.READY]:
            pause = min(FIRST_PAUSE * 2**self._failed_starts, LONGEST_PAUSE)
            self.wait(pause, now)
            self._failed_starts = min(self._failed_starts + 1, 16)
            return
        self._failed_starts = 0
        is_young = now - dead.began < YOUNG
        self._young_deaths = self._young_deaths + 1 if is_young else 0
        if self._young_deaths > MANY:
            self.wait(SHORT_PAUSE, now)

    def wait(self, seconds: float, now: float) -> None:
        """Start no child for so many seconds from now."""
        self.due = max(self.due, now + seconds)
