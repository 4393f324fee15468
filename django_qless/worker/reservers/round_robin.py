"""One job of each queue in turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from django_qless.worker.reservers.base import Reserver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Reserved


class RoundRobin(Reserver):
    """Serves each queue once before it serves one of them again; empty ones are skipped.

    A batch is taken in turns as well, and run in turn.
    """

    name = "round-robin"
    summary = "one job of each queue in turn"
    turns = True
    reads_book = False

    #: The queue that was served last; if `_missed`, the one whose turn it still is.
    _served: str | None = None
    _missed = False

    def order(self) -> Sequence[str]:
        """Return the queues, beginning behind the one that was served last."""
        ring = self.ring()
        if self._served in ring:
            first = ring.index(self._served) + (not self._missed)
            ring = [*ring[first:], *ring[:first]]
        return self.question(ring)

    def ring(self) -> list[str]:
        """Return the queues in the order in which they take turns."""
        return list(self.candidates())

    def took(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Remember whose turn it was last."""
        if jobs:
            self._served, self._missed = self.arrange(jobs)[-1].queue, False

    def arrange(self, jobs: Sequence[Reserved]) -> Sequence[Reserved]:
        """Return the first job of each queue, then the second of each, and so on."""
        lines: dict[str, deque[Reserved]] = {}
        for job in jobs:
            lines.setdefault(job.queue, deque()).append(job)
        if len(lines) <= 1:
            return jobs
        arranged: list[Reserved] = []
        while lines:
            for queue, line in list(lines.items()):
                arranged.append(line.popleft())
                if not line:
                    del lines[queue]
        return arranged

    def gave_back(self, jobs: Sequence[Reserved]) -> None:
        """Go on with the queue of the first job that did not get its turn."""
        if jobs:
            self._served, self._missed = jobs[0].queue, True
