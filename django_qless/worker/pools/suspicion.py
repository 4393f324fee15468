"""Who has killed the process that ran several jobs? They are run apart, to find out.

All jobs that ran in a process when it died have their crash counted, since nobody knows
which of them was to blame. Then each gets a process of its own for a while: if one dies
again, only the job in it is counted on, and the bystanders go free.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

LIMIT = 30.0
"""Seconds for which jobs are run apart at most: they may be run elsewhere, or not at all."""

PAUSE = 0.02
"""Seconds between two looks for the suspects."""

APART = 4
"""The most processes, each with one job, that there are meanwhile."""


class Suspicion:
    """Remembers which jobs ran in processes that died, until they have been run again."""

    def __init__(self) -> None:
        self._suspects: set[str] = set()
        self._seen: set[str] = set()
        self._until = -math.inf

    def __bool__(self) -> bool:
        return bool(self._suspects)

    def note_crash(self, jids: Collection[str], now: float) -> None:
        """Take in that a process has died that ran these jobs; one alone is no riddle."""
        if len(jids) > 1 or self._suspects:
            self._suspects.update(jids)
            self._seen.difference_update(jids)
            self._until = now + LIMIT

    def look(self, running: Collection[str], now: float) -> None:
        """Clear those that have run again to the end, given the jobs that run now."""
        self._seen |= self._suspects.intersection(running)
        innocent = self._seen.difference(running)
        self._suspects -= innocent
        self._seen -= innocent
        if now >= self._until:
            self._suspects.clear()
            self._seen.clear()
