"""Reservers: in what order a worker asks its queues for the next jobs.

A reserver makes no call. Its caller passes what is known of the queues, sends the order,
and reports what came: `order`, `taken`, `returned`.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, ClassVar

from django_qless.core.globs import is_glob
from django_qless.worker.known_queues import MAX_AGE, KnownQueues

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_qless.core import Reserved

MAX_NAMES = 500
"""Names in one order; the server finds the others by their globs."""

LAG_AGE = 0.02
"""Seconds after which lags are looked up again when jobs were taken: they have changed."""

LEFT_OUT_SECONDS = 3.0
"""Seconds after which an empty queue takes part in a reduced lottery again.

It may have been filled while the others always had enough jobs.
"""


class Reserver:
    """A strategy that decides which queues are asked next, and in what order.

    The server takes from the first queue of the order as long as it has jobs, then from
    the second; it passes over paused queues. It expands globs by itself, so the orders end
    with them: a queue that has just appeared is found.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for people."""
    needs_figures: ClassVar[bool] = True
    """False if it needs at most the names of the queues."""

    def __init__(self, queues: Sequence[str], exclude: Sequence[str] = ()) -> None:
        """Serve these names and globs, without what `exclude` matches."""
        self.queues = tuple(queues)
        self.exclude = tuple(exclude)
        self.globs = tuple(name for name in self.queues if is_glob(name))

    @property
    def max_age(self) -> float | None:
        """Seconds that the known queues may be old; None: they are not needed."""
        return MAX_AGE if self.needs_figures or self.globs else None

    @property
    def surveyed(self) -> Sequence[str]:
        """The names to look up; none: all queues."""
        return () if self.globs else self.queues

    def order(self, known: KnownQueues) -> tuple[str, ...]:
        """Return names and globs in the order in which to ask them now."""
        names = self._ranked(known.expand(self.queues, self.exclude), known)
        return (*names[:MAX_NAMES], *self.globs)

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        raise NotImplementedError

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Note which jobs this order has brought, perhaps none."""

    def returned(self, jobs: Sequence[Reserved]) -> None:
        """Note that these jobs, the next to run, were returned to their queues."""


class Ordered(Reserver):
    """Serves the second queue only when the first is empty; globs stay in their places."""

    name = "ordered"
    summary = "the first queue given as long as it has jobs, then the second, …"
    max_age = None

    def order(self, known: KnownQueues) -> tuple[str, ...]:
        """Return the queues as they were given."""
        return self.queues


class RoundRobin(Reserver):
    """Serves each queue once per round, skipping empty ones.

    A batch comes from one queue as long as that has jobs.
    """

    name = "round-robin"
    summary = "each queue in turn"
    needs_figures = False

    #: The queue that was served last; if `_missed`, the one that is still next.
    _served: str | None = None
    _missed = False

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        if self._served not in queues:
            return queues
        first = queues.index(self._served) + (not self._missed)
        return [*queues[first:], *queues[:first]]

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Remember which queue was served last."""
        if jobs:
            self._served, self._missed = jobs[-1].queue, False

    def returned(self, jobs: Sequence[Reserved]) -> None:
        """Go on with the queue of the first job that missed its turn."""
        if jobs:
            self._served, self._missed = jobs[0].queue, True


class Shuffled(RoundRobin):
    """Takes turns in an order that each process shuffles for itself.

    So workers that were started together do not all begin with the same queue. A queue
    that appears later gets a random place as well.
    """

    name = "shuffled"
    summary = "in turn, in an order that each process shuffles at its start"

    def __init__(self, queues: Sequence[str], exclude: Sequence[str] = ()) -> None:
        super().__init__(queues, exclude)
        self._places: dict[str, float] = {}

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        for queue in queues:
            self._places.setdefault(queue, random.random())
        return super()._ranked(sorted(queues, key=self._places.__getitem__), known)


class Random(Reserver):
    """Draws a queue for each order, all with the same odds, whatever their weights."""

    name = "random"
    summary = "drawn at random, each queue as often as the others"
    needs_figures = False

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        return random.sample(queues, len(queues))


class Lottery(Reserver):
    """Draws a queue for each order, with odds in proportion to its weight.

    It remembers nothing: an empty queue has its odds again in the next draw. The next to
    be asked, if the first has too little, is drawn from the others. A queue without
    weight is asked when the others are empty.
    """

    name = "lottery"
    summary = "drawn by the queues' weights"

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        return draw(queues, known)


class ReducedLottery(Lottery):
    """Draws by weight; a queue found empty is left out until all are empty.

    Left out means asked after all others, and only briefly, so that a queue that fills
    again is soon back in the draw.
    """

    name = "reduced-lottery"
    summary = "drawn by the queues' weights, empty queues left out until all are empty"

    def __init__(self, queues: Sequence[str], exclude: Sequence[str] = ()) -> None:
        super().__init__(queues, exclude)
        #: Until when each empty queue is left out (monotonic).
        self.left_out: dict[str, float] = {}

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        now = time.monotonic()
        empty = {name for name in queues if self.left_out.get(name, now) > now}
        drawn = draw([name for name in queues if name not in empty], known)
        return [*drawn, *draw(empty, known)]

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Leave out the queues that were asked before the last one that had jobs.

        Whether that one has more is not known.
        """
        if not jobs:
            self.left_out.clear()
            return
        last = jobs[-1].queue
        before = asked[: asked.index(last)] if last in asked else asked
        until = time.monotonic() + LEFT_OUT_SECONDS
        self.left_out.update(dict.fromkeys(before, until))
        self.left_out.pop(last, None)


class HighestPriorityFirst(Reserver):
    """Serves the queue of the highest weight while it has jobs, then the next.

    Like `ordered`, but operators can change the order in the queues' options.
    """

    name = "highest-priority-first"
    summary = "the queue of the greatest weight as long as it has jobs"

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        return sorted(queues, key=known.weight, reverse=True)


class HighestPriorityLottery(Lottery):
    """Serves the queue of the highest weight while it has jobs, else draws by weight.

    Of several with the highest weight one is drawn. So urgent jobs wait for nothing, and
    the other queues share what is left by their weights.
    """

    name = "highest-priority-lottery"
    summary = "the queue of the greatest weight, then the others drawn by their weights"

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        highest = max(map(known.weight, queues), default=0.0)
        drawn = draw(queues, known)
        return sorted(drawn, key=lambda queue: known.weight(queue) != highest)


class Lag(Reserver):
    """Serves the queue whose oldest ready job has waited longest.

    So all queues are equally late, whatever comes into them. With jobs that take longer
    than a lookup each choice is exact.
    """

    name = "lag"
    summary = "the queue whose oldest ready job has waited longest"

    _has_taken = False

    @property
    def max_age(self) -> float:
        """Lags change when jobs are taken."""
        return LAG_AGE if self._has_taken else MAX_AGE

    def _ranked(self, queues: list[str], known: KnownQueues) -> Sequence[str]:
        self._has_taken = False
        return sorted(queues, key=known.lag, reverse=True)

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Note that the lags have changed if a queue had jobs."""
        self._has_taken = bool(jobs)


def draw(queues: Iterable[str], known: KnownQueues) -> list[str]:
    """Return the queues in random order, drawn one by one by weight.

    Each waits for a random time that is the shorter, on average, the higher its weight;
    those without weight come last, shuffled as well.
    """

    def wait(queue: str) -> tuple[float, float]:
        weight = known.weight(queue)
        wait = random.expovariate(weight) if weight > 0 else float("inf")
        return wait, random.random()

    return sorted(queues, key=wait)


RESERVERS: dict[str, type[Reserver]] = {
    reserver.name: reserver
    for reserver in (
        Ordered,
        RoundRobin,
        Shuffled,
        Random,
        Lottery,
        ReducedLottery,
        HighestPriorityFirst,
        HighestPriorityLottery,
        Lag,
    )
}
