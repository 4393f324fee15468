"""Reservers: which queues a worker asks for its next jobs, and in what order.

ordered                   the first as long as it has jobs
round-robin               each in turn
shuffled                  in turn, in an order of each process's own
random                    drawn each time, all alike
lottery                   drawn each time, by weight
reduced-lottery           the same, empty queues left out
highest-priority-first    by weight
highest-priority-lottery  the greatest weight first, then drawn by weight
lag                       the one whose oldest job has waited longest
"""

from __future__ import annotations

import random
import time
from collections import deque
from typing import TYPE_CHECKING, ClassVar

from django_qless.core.globs import is_glob, matches_any
from django_qless.worker.known_queues import MAX_AGE, KnownQueues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_qless.core import Client, Reserved

# Names in one order; the server finds the others by their globs.
MAX_NAMES = 500

# What was taken changes the lags. Seconds after which they are looked up again, and the
# share of the time that this may cost: with longer jobs each choice is exact.
LAG_AGE, LAG_SHARE = 0.02, 0.05

# Seconds after which an empty queue takes part in a lottery again at the latest: it may
# have been filled while the others always had enough jobs.
LEFT_OUT = 3.0


def new_reserver(
    name: str, queues: Sequence[str], exclude: Sequence[str], client: Client
) -> Reserver:
    """Return a new reserver of this name for one process.

    It makes no call with the client, nor a connection, before it needs one.
    """
    reserver = RESERVERS[FORMER_NAMES.get(name, name)]
    return reserver(queues, exclude, KnownQueues(client, queues))


def rename_warning(name: str) -> str:
    """Return what to tell who names a reserver in former words; "" for nothing."""
    if name in FORMER_NAMES:
        return f"--reserver {name} is called {FORMER_NAMES[name]} now: write that."
    return CHANGED_NAMES.get(name, "")


class Reserver:
    """A strategy that decides which queues are asked next, and in what order.

    Each process of a pool has its own, used by one thread. The server takes from the
    first queue of the order as long as it has jobs, then from the second; it passes over
    paused queues. It expands globs by itself, so the strategies end their orders with
    them: a queue that has just appeared is found.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for people."""
    turns: ClassVar[bool] = False
    """True if a batch takes jobs from the queues in turn, not all from the first."""
    needs_figures: ClassVar[bool] = True
    """True if it needs more than the names of the queues."""

    def __init__(
        self,
        queues: Sequence[str],
        exclude: Sequence[str] = (),
        known: KnownQueues | None = None,
    ) -> None:
        """Serve these names and globs, without what `exclude` matches.

        Without known queues, weights and lags are equal, and globs are left to the
        server.
        """
        self.queues = tuple(queues)
        self.exclude = tuple(exclude)
        self.known = known
        self.globs = tuple(name for name in self.queues if is_glob(name))
        self.named = tuple(
            name
            for name in dict.fromkeys(self.queues)
            if not is_glob(name) and not matches_any(name, self.exclude)
        )
        self.begin()

    def begin(self) -> None:
        """Make what the strategy remembers from one order to the next."""

    @property
    def may_look_up(self) -> bool:
        """True if `order` may have to ask the server."""
        return self.known is not None and (self.needs_figures or bool(self.globs))

    def order(self) -> Sequence[str]:
        """Return names and globs in the order in which to ask them now."""
        # Each strategy has one; the hooks around it may stay empty.
        raise NotImplementedError

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Note which jobs this order has brought, perhaps none."""

    def arrange(self, jobs: Sequence[Reserved]) -> Sequence[Reserved]:
        """Return the jobs of one answer in the order in which to run them."""
        return jobs

    def returned(self, jobs: Sequence[Reserved]) -> None:
        """Note that these jobs, the next to run, were returned to their queues."""

    def candidates(self) -> Sequence[str]:
        """Return the names of all candidate queues, as far as known."""
        if self.known is None:
            return self.named
        if self.may_look_up:
            self.known.refresh()
        if not self.globs:
            return self.named
        return self.known.expand(self.queues, self.exclude)

    def with_globs(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return an order: these names, then the globs for queues not known yet."""
        return (*list(names)[:MAX_NAMES], *self.globs)


class Ordered(Reserver):
    """Serves the second queue only when the first is empty.

    Globs stay where they were given: the server expands them, without a lookup.
    """

    name = "ordered"
    summary = "the first queue given as long as it has jobs, then the second, …"
    may_look_up = False

    def order(self) -> Sequence[str]:
        """Return the queues as they were given."""
        return self.queues


class RoundRobin(Reserver):
    """Serves each queue once per round, skipping empty ones.

    The jobs of a batch are taken, and run, in turn as well.
    """

    name = "round-robin"
    summary = "one job of each queue in turn"
    turns = True
    needs_figures = False

    #: The queue that was served last; if `_missed`, the one that is still next.
    _served: str | None = None
    _missed = False

    def order(self) -> Sequence[str]:
        """Return the queues, beginning after the one that was served last."""
        ring = self.ring()
        if self._served in ring:
            first = ring.index(self._served) + (not self._missed)
            ring = [*ring[first:], *ring[:first]]
        return self.with_globs(ring)

    def ring(self) -> list[str]:
        """Return the queues in the order in which they take turns."""
        return list(self.candidates())

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Remember which queue was served last."""
        if jobs:
            self._served, self._missed = self.arrange(jobs)[-1].queue, False

    def arrange(self, jobs: Sequence[Reserved]) -> Sequence[Reserved]:
        """Return the first job of each queue, then the second, and so on."""
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

    def returned(self, jobs: Sequence[Reserved]) -> None:
        """Go on with the queue of the first job that missed its turn."""
        if jobs:
            self._served, self._missed = jobs[0].queue, True


class Shuffled(RoundRobin):
    """Takes turns in an order that each process shuffles at its start.

    So workers that were started together do not all begin with the same queue. A queue
    that appears later gets a random place as well.
    """

    name = "shuffled"
    summary = "in turn, in an order that each process shuffles at its start"

    def begin(self) -> None:
        """Begin without an order: each queue gets its place when it is first seen."""
        self._places: dict[str, float] = {}

    def ring(self) -> list[str]:
        """Return the queues in this process's own order."""
        return sorted(super().ring(), key=self._place)

    def _place(self, queue: str) -> float:
        return self._places.setdefault(queue, random.random())


class Random(Reserver):
    """Draws a queue for each order, all with the same odds, whatever their weights."""

    name = "random"
    summary = "drawn at random, each queue as often as the others"
    needs_figures = False

    def begin(self) -> None:
        """Seed a random generator for this process."""
        self.random = random.Random()

    def order(self) -> Sequence[str]:
        """Return the queues in random order."""
        queues = list(self.candidates())
        self.random.shuffle(queues)
        return self.with_globs(queues)


class Lottery(Reserver):
    """Draws a queue for each order, with odds in proportion to its weight.

    It remembers nothing: an empty queue has its odds again in the next draw. The next to
    be asked, if the first has too little, is drawn from the others. A queue without
    weight is asked when the others are empty.
    """

    name = "lottery"
    summary = "drawn by the queues' weights"

    def begin(self) -> None:
        """Seed a random generator for this process."""
        self.random = random.Random()

    def order(self) -> Sequence[str]:
        """Return the queues as they were drawn."""
        return self.with_globs(self.draw(self.candidates()))

    def draw(self, queues: Iterable[str]) -> list[str]:
        """Return all these queues in the order in which they are drawn."""
        return weighted_shuffle(queues, self.weight, self.random)

    def weight(self, queue: str) -> float:
        """Return the weight of a queue, 1 if it is not known."""
        return self.known.weight(queue) if self.known else 1.0


class ReducedLottery(Lottery):
    """Draws by weight; a queue found empty is left out until all are empty.

    Left out means asked after all others, and only briefly, so that a queue that fills
    again is soon back in the draw.
    """

    name = "reduced-lottery"
    summary = "drawn by the queues' weights, empty queues left out until all are empty"

    def begin(self) -> None:
        """Begin with all queues in the draw."""
        super().begin()
        #: Until when each empty queue is left out (monotonic).
        self.left_out: dict[str, float] = {}

    def order(self) -> Sequence[str]:
        """Return the queues as they were drawn, the empty ones after the others."""
        now = time.monotonic()
        queues = self.candidates()
        empty = {name for name in queues if self.left_out.get(name, now) > now}
        drawn = self.draw(name for name in queues if name not in empty)
        return self.with_globs([*drawn, *self.draw(empty)])

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Leave out the queues that were asked before the last one that had jobs.

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
    """Return the queues in random order, drawn one by one by weight.

    Each waits for a random time that is the shorter, on average, the higher its weight.
    """

    def wait(queue: str) -> float:
        lots = weight(queue)
        return chance.expovariate(lots) if lots > 0 else float("inf")

    # Queues without weight are shuffled as well: sorting keeps their order.
    mixed = list(queues)
    chance.shuffle(mixed)
    waits = {queue: wait(queue) for queue in mixed}
    return sorted(mixed, key=waits.__getitem__)


class HighestPriorityFirst(Reserver):
    """Serves the queue of the highest weight while it has jobs, then the next.

    Like `ordered`, but operators can change the order in the queues' options.
    """

    name = "highest-priority-first"
    summary = "the queue of the greatest weight as long as it has jobs"

    def order(self) -> Sequence[str]:
        """Return the queues by falling weight; equal ones as they were given."""
        queues, known = self.candidates(), self.known
        if known is not None:
            queues = sorted(queues, key=known.weight, reverse=True)
        return self.with_globs(queues)


class HighestPriorityLottery(Lottery):
    """Serves the queue of the highest weight while it has jobs, else draws by weight.

    Of several with the highest weight one is drawn. So urgent jobs wait for nothing, and
    the other queues share what is left by their weights.
    """

    name = "highest-priority-lottery"
    summary = "the queue of the greatest weight, then the others drawn by their weights"

    def order(self) -> Sequence[str]:
        """Return the queues of the highest weight, then the others as they were drawn."""
        queues = self.candidates()
        highest = max(map(self.weight, queues), default=0.0)
        first = [name for name in queues if self.weight(name) == highest]
        others = (name for name in queues if self.weight(name) != highest)
        return self.with_globs([*self.draw(first), *self.draw(others)])


class Lag(Reserver):
    """Serves the queue whose oldest ready job has waited longest.

    So all queues are equally late, whatever comes into them.
    """

    name = "lag"
    summary = "the queue whose oldest ready job has waited longest"

    _has_taken = False

    def order(self) -> Sequence[str]:
        """Return the queues by falling lag; equal ones as they were given."""
        known = self.known
        if known is None:
            return self.with_globs(self.named)
        age = max(LAG_AGE, known.cost / LAG_SHARE) if self._has_taken else MAX_AGE
        if known.refresh(min(MAX_AGE, age)):
            self._has_taken = False
        queues = self.candidates()
        return self.with_globs(sorted(queues, key=known.lag, reverse=True))

    def taken(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Note that the lags have changed if a queue had jobs."""
        self._has_taken = self._has_taken or bool(jobs)


RESERVERS: dict[str, type[Reserver]] = {
    known.name: known
    for known in (
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

#: Names that reservers had before.
FORMER_NAMES = {"plain-lottery": "lottery"}

#: Names that have another meaning now.
CHANGED_NAMES = {
    "lottery": "--reserver lottery draws empty queues again immediately now, as plain-lottery "
    "did: write reduced-lottery for what lottery did before."
}
