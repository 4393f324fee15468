"""Slots that the workers of one alias's namespaces share: one for each job at once.

A child takes a slot right before it asks its server for jobs, and gives it back when it
holds none. If all are taken it waits for one, at no server. Who gives a slot back chooses
the next namespace, by the rule of the reserver, and wakes a child of it.

They are in a file without a name, which outlives a restart in place:

    head        LIMIT     the number of slots
                NUMBER    how many namespaces share them
                DRAWN     1: the next namespace is drawn, by the figures
                WAITING   how many slots are waited for
                TURNS     how many were given
                USED      how many records of children were ever used
    namespace   FIGURE    the least comes first; where it is drawn, its lots
                SERVED    the turn in which it was given its last slot
    child       PID, OWNER (its namespace), HELD and WANTED (slots), SINCE (the turn in
                which it began to wait), ASKING (since when it asks its server, or 0.0)

They change under a lock on the file's first byte, and each child locks a separate byte for
its life. The kernel gives up both when a process dies, so what the dead have left is seen:
by the parent that reaps them, and by those that wait, who look once a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import random
import select
import signal
import tempfile
import time
from typing import TYPE_CHECKING

from django_qless.worker.reservers import (
    FORMER_NAMES,
    HighestPriorityFirst,
    HighestPriorityLottery,
    Lag,
    Lottery,
    Ordered,
    ReducedLottery,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from django_qless.worker.known_queues import KnownQueues
    from django_qless.worker.reservers import Reserver

LIMIT, NUMBER, DRAWN, WAITING, TURNS, USED, HEAD = range(7)
FIGURE, SERVED, NAMESPACE_WORDS = range(3)
PID, OWNER, HELD, WANTED, SINCE, ASKING, CHILD_WORDS = range(7)
WORD = 8

# Children of a namespace beyond its concurrency: those that leave, or run suspected jobs.
SPARE = 16

# Seconds after which a child that waits looks for slots of the dead; and after which one
# that asks its server loses its slot: the server is away, or hangs.
LOOK, LATE = 1.0, 1.0

# Wakes a child that was given a slot. By default it is ignored, so it harms no process.
SIGNAL = signal.SIGURG


def _greatest_weight(known: KnownQueues, queues: Iterable[str]) -> float:
    return -max(map(known.weight, queues), default=0.0)


def _longest_lag(known: KnownQueues, queues: Iterable[str]) -> float:
    # Since when the oldest job waits: so the figure holds as long as that is not taken.
    return time.monotonic() - max(map(known.lag, queues), default=0.0)


def _sum_of_weights(known: KnownQueues, queues: Iterable[str]) -> float:
    return sum(map(known.weight, queues))


#: How reservers compare namespaces, by what they know of their queues. That of `ordered` has
#: the place of its first queue; with all others, and with equal figures, they take turns.
FIGURES: dict[str, Callable[[KnownQueues, Iterable[str]], float]] = {
    HighestPriorityFirst.name: _greatest_weight,
    HighestPriorityLottery.name: _greatest_weight,
    Lag.name: _longest_lag,
    Lottery.name: _sum_of_weights,
    ReducedLottery.name: _sum_of_weights,
}
BY_LOT = (Lottery.name, ReducedLottery.name)


class SharedSlots:
    """The slots of one alias, as each process of its workers sees them."""

    def __init__(self, file: int, namespace: int = 0) -> None:
        """Use this file; `namespace` is the number of the worker's own one."""
        self.file = file
        # It was, if this process has been restarted in place.
        os.set_inheritable(file, False)
        self.namespace = namespace
        # It has a copy of the descriptor. Closing either would give up all locks.
        self._memory = mmap.mmap(file, 0)
        view = memoryview(self._memory)
        self.ints, self.floats = view.cast("Q"), view.cast("d")

    @classmethod
    def create(cls, limit: int, places: Sequence[int], reserver: str) -> SharedSlots:
        """Return new slots; each namespace has the place of its first queue."""
        name, number = FORMER_NAMES.get(reserver, reserver), len(places)
        children = number * (limit + SPARE)
        file = new_file()
        os.ftruncate(
            file, WORD * (HEAD + number * NAMESPACE_WORDS + children * CHILD_WORDS)
        )
        slots = cls(file)
        slots.ints[LIMIT], slots.ints[NUMBER] = limit, number
        slots.ints[DRAWN] = name in BY_LOT
        for namespace, place in enumerate(places):
            figure = place if name == Ordered.name else float(name in BY_LOT)
            slots.floats[slots.record(namespace) + FIGURE] = figure
        return slots

    def record(self, namespace: int) -> int:
        """Return where the record of a namespace begins."""
        return HEAD + namespace * NAMESPACE_WORDS

    def children(self) -> range:
        """Return where the records of children begin that were ever used."""
        first = self.record(self.ints[NUMBER])
        return range(first, first + self.ints[USED] * CHILD_WORDS, CHILD_WORDS)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other processes from changing the slots in the block."""
        fcntl.lockf(self.file, fcntl.LOCK_EX, 1, 0)
        try:
            yield
        finally:
            fcntl.lockf(self.file, fcntl.LOCK_UN, 1, 0)

    @property
    def is_wanted(self) -> bool:
        """True if a child of this namespace waits for a slot."""
        return self.namespace in self.waiting()

    def sweep(self) -> None:
        """Give to others what dead children have left."""
        with self.changing():
            if self.clear():
                self.give()

    # Within `changing` only.

    def enter(self) -> int:
        """Return where the record of this process, a child, begins."""
        ints = self.ints
        first = self.record(ints[NUMBER])
        for at in range(first, len(ints), CHILD_WORDS):
            if self._lock(at):
                ints[USED] = max(ints[USED], (at - first) // CHILD_WORDS + 1)
                for word in range(at, at + CHILD_WORDS):
                    ints[word] = 0
                ints[at + PID], ints[at + OWNER] = os.getpid(), self.namespace
                return at
        raise RuntimeError("more children than the shared slots have room for")

    def waiting(self) -> set[int]:
        """Return the namespaces that wait for slots."""
        pairs = zip(self._column(OWNER), self._column(WANTED), strict=True)
        return {owner for owner, wanted in pairs if wanted}

    def next(self, namespaces: Iterable[int]) -> int:
        """Return which of these is to have the next slot."""
        return min(namespaces, key=self._rank)

    def count_turn(self, namespace: int) -> None:
        """Note that a namespace has a slot now."""
        self.ints[TURNS] += 1
        self.ints[self.record(namespace) + SERVED] = self.ints[TURNS]

    def give(self, but: int | None = None) -> None:
        """Give the free slots to those that wait, except to one namespace."""
        ints = self.ints
        free = ints[LIMIT] - sum(self._column(HELD))
        while free > 0 and (namespaces := self.waiting() - {but}):
            chosen = self.next(namespaces)
            _, at = min(
                (ints[at + SINCE], at)
                for at in self.children()
                if ints[at + WANTED] and ints[at + OWNER] == chosen
            )
            # In this order: a child that finds itself without either is not given any.
            ints[at + HELD] += 1
            ints[at + WANTED] -= 1
            free -= 1
            self.count_turn(chosen)
            if ints[at + PID] != os.getpid():
                # It may have died, and its id be that of another process.
                with contextlib.suppress(OSError):
                    os.kill(ints[at + PID], SIGNAL)
        ints[WAITING] = sum(self._column(WANTED))

    def clear(self) -> bool:
        """Free what dead children have, and those that ask a lost server; return if any."""
        ints, now, found = self.ints, time.monotonic(), False
        for at in self.children():
            in_use = ints[at + HELD] or ints[at + WANTED]
            if not in_use or ints[at + PID] == os.getpid():
                continue
            if self._lock(at):
                ints[at + HELD] = ints[at + WANTED] = 0
                fcntl.lockf(self.file, fcntl.LOCK_UN, 1, at)
                found = True
            elif (asking := self.floats[at + ASKING]) and now - asking > LATE:
                ints[at + HELD] = 0
                found = True
        return found

    def _column(self, word: int) -> memoryview[int]:
        """Return this word of all records of children."""
        known = self.children()
        return self.ints[known.start + word : known.stop : CHILD_WORDS]

    def _rank(self, namespace: int) -> tuple[float, int, int]:
        at = self.record(namespace)
        figure = self.floats[at + FIGURE]
        if self.ints[DRAWN]:
            figure = random.expovariate(figure) if figure > 0 else float("inf")
        return figure, self.ints[at + SERVED], namespace

    def _lock(self, at: int) -> bool:
        """Lock the byte of a child; return False if the child lives."""
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
        except OSError:
            return False
        return True


class ChildSlots:
    """What a child holds of the slots. One thread uses it."""

    def __init__(self, slots: SharedSlots) -> None:
        self.slots = slots
        # A handler, so that the signal ends a wait.
        signal.signal(SIGNAL, lambda *_: None)
        with slots.changing():
            self._at = slots.enter()
            slots.give()
        self._looked = 0.0
        #: The number of slots that it holds, as the only element.
        self.capacity = slots.ints[self._at + HELD : self._at + HELD + 1]

    @property
    def held(self) -> int:
        """Number of slots that it holds."""
        return self.capacity[0]

    @property
    def is_waiting(self) -> bool:
        """True if it waits for slots."""
        return bool(self.slots.ints[self._at + WANTED])

    @property
    def is_contended(self) -> bool:
        """True if a child waits for a slot, perhaps this one."""
        return bool(self.slots.ints[WAITING])

    def want(self, total: int) -> int:
        """Hold so many slots, or wait for those that are missing; return how many it has.

        Those beyond are given back. It is woken when it has got more.
        """
        slots, ints, at = self.slots, self.slots.ints, self._at
        slots.floats[at + ASKING] = 0.0
        now = time.monotonic()
        if ints[at + HELD] + ints[at + WANTED] == total and (
            not ints[at + WANTED] or now < self._looked + LOOK / 2
        ):
            return self.held
        self._looked = now
        with slots.changing():
            self._want(total)
            slots.give()
            if ints[at + WANTED] and slots.clear():
                slots.give()
        return self.held

    def keeps(self) -> bool:
        """Return whether a slot that has become free is for this namespace again."""
        if not self.is_contended:
            return True
        slots, own = self.slots, self.slots.namespace
        with slots.changing():
            is_own = slots.next(slots.waiting() | {own}) == own
            if is_own:
                slots.count_turn(own)
        return is_own

    def pass_on(self, kept: int, total: int) -> None:
        """Give slots to other namespaces but these; then wait for so many in all."""
        with self.slots.changing():
            self.slots.floats[self._at + ASKING] = 0.0
            self._want(kept)
            self.slots.give(but=self.slots.namespace)
            # At once: the others must not be done with theirs before this one waits.
            self._want(total)
            self.slots.give()

    def wait(self, reader: int) -> bool:
        """Sleep until it has a slot, but not for long; return whether it has.

        `reader` is the pipe into which signals are written.
        """
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        if not self.held and poll.poll(LOOK * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(reader, 4096)
        return bool(self.held)

    def asking(self) -> None:
        """Note that it asks its server: if that takes too long, it loses its slot."""
        self.slots.floats[self._at + ASKING] = time.monotonic()

    def answered(self) -> bool:
        """Note that the server has answered; return whether it still has a slot."""
        floats, at = self.slots.floats, self._at
        began, floats[at + ASKING] = floats[at + ASKING], 0.0
        if time.monotonic() - began > LATE / 2:
            with self.slots.changing():
                pass  # who has seen it asking has taken the slot by now
        return bool(self.held)

    def tell(self, reserver: Reserver) -> None:
        """Publish the figure of the namespace, from what its reserver knows."""
        if (figure := FIGURES.get(reserver.name)) and reserver.known:
            at = self.slots.record(self.slots.namespace) + FIGURE
            self.slots.floats[at] = figure(reserver.known, reserver.candidates())

    def _want(self, total: int) -> None:
        ints, at = self.slots.ints, self._at
        ints[at + HELD] = min(ints[at + HELD], total)
        if not ints[at + WANTED]:
            ints[at + SINCE] = ints[TURNS]
        ints[at + WANTED] = total - ints[at + HELD]


def new_file() -> int:
    """Return the descriptor of an empty file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("qless-slots")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
