"""In turn, but not in everybody's order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from django_qless.worker.reservers.round_robin import RoundRobin

if TYPE_CHECKING:
    pass


class Shuffled(RoundRobin):
    """Takes turns in an order that each process has shuffled for itself at its start.

    So workers that were started together do not all begin with the same queue. A queue
    that appears later finds its place by chance as well.
    """

    name = "shuffled"
    summary = "in turn, in an order that each process shuffles at its start"

    def begin(self) -> None:
        """Begin without an order: each queue draws its place when it is first seen."""
        self._places: dict[str, float] = {}

    def ring(self) -> list[str]:
        """Return the queues in this process's own order."""
        return sorted(super().ring(), key=self._place)

    def _place(self, queue: str) -> float:
        return self._places.setdefault(queue, random.random())
