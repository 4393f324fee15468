"""Queues drawn by lot: who has more weight is asked first more often."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from django_qless.worker.reservers.base import Reserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_qless.core import Reserved

# Seconds after which a queue that was empty takes part again at the latest: it may have
# been filled, while the others have enough to do to be asked for ever.
LEFT_OUT = 3.0


class PlainLottery(Reserver):
    """Draws a queue for each question; one of weight 3 is drawn thrice as often as one
    of weight 1.

    The next to be asked, if the first has too little, is drawn from the others. A queue
    without weight is asked when the others are empty.
    """

    name = "plain-lottery"
    summary = "drawn by the queues' weights"

    def begin(self) -> None:
        """Have a source of chance of its own."""
        self.random = random.Random()

    def order(self) -> Sequence[str]:
        """Return the queues as they were drawn."""
        return self.question(self.draw(self.candidates()))

    def draw(self, queues: Iterable[str]) -> list[str]:
        """Return all these queues in the order in which they are drawn."""
        return weighted_shuffle(queues, self.weight, self.random)

    def weight(self, queue: str) -> float:
        """Return how many lots the queue has."""
        return self.book.weight(queue) if self.book else 1.0


class Lottery(PlainLottery):
    """The same, but a queue that was found empty is left out until all are empty.

    Left out means asked after all others; and not for long, so that a queue that fills
    again is soon back in the draw.
    """

    name = "lottery"
    summary = "drawn by the queues' weights, empty queues left out until all are empty"

    def begin(self) -> None:
        """Begin with all queues in the draw."""
        super().begin()
        #: Until when each empty queue is left out, on the monotonic clock.
        self.left_out: dict[str, float] = {}

    def order(self) -> Sequence[str]:
        """Return the queues as they were drawn, the empty ones behind the others."""
        now = time.monotonic()
        queues = self.candidates()
        empty = {name for name in queues if self.left_out.get(name, now) > now}
        drawn = self.draw(name for name in queues if name not in empty)
        return self.question([*drawn, *self.draw(empty)])

    def took(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Leave out the queues that were asked before the last one that gave.

        Whether that one has more is not known.
        """
        if not jobs:
            self.left_out.clear()
            return
        last = jobs[-1].queue
        before = asked[: asked.index(last)] if last in asked else asked
        until = time.monotonic() + LEFT_OUT
        self.left_out.update(dict.fromkeys(before, until))
        self.left_out.pop(last, None)


def weighted_shuffle(
    queues: Iterable[str], weight: Callable[[str], float], chance: random.Random
) -> list[str]:
    """Return the queues as if drawn one after the other, by weight, from the rest.

    Each waits for a time that is the shorter, on average, the more weight it has.
    """

    def wait(queue: str) -> float:
        lots = weight(queue)
        return chance.expovariate(lots) if lots > 0 else float("inf")

    # Those without weight are mixed as well: sorting leaves them as they come.
    mixed = list(queues)
    chance.shuffle(mixed)
    waits = {queue: wait(queue) for queue in mixed}
    return sorted(mixed, key=waits.__getitem__)
