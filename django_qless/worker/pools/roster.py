"""The children that a pool has, should have, and how many jobs each may run."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.board import SLOTS, Board
from django_qless.worker.pools.nursery import Nursery
from django_qless.worker.pools.process import Process
from django_qless.worker.pools.suspicion import APART, PAUSE, Suspicion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.worker.execution import Obituary
    from django_qless.worker.pools.kinds import Kind

# Seconds from one look at children that leave to the next.
CHANGE = 0.1


class Roster:
    """The children of one pool.

    A kind with many children has one job in each, and a child that leaves is replaced
    when it has left. A kind with one child has all jobs in it. There the successor starts
    at once, with as much room as the leaving ones leave; and after a crash there are
    several children for a while, with one job in each.
    """

    def __init__(self, kind: Kind, concurrency: int) -> None:
        self.kind = kind
        self.concurrency = concurrency
        self.nursery = Nursery()
        self._children: list[Process] = []
        self._suspicion = Suspicion()
        self._buried_runs = 0

    def __iter__(self) -> Iterator[Process]:
        return iter(self._children)

    def __len__(self) -> int:
        return len(self._children)

    @property
    def wanted(self) -> int:
        """How many children there should be, apart from leaving ones."""
        if self.kind.many:
            return self.concurrency
        return max(1, min(APART, self._free)) if self._suspicion else 1

    @property
    def staying(self) -> list[Process]:
        """The children that do not leave, and those that are replaced when they have."""
        if self.kind.many:
            return self._children
        return [child for child in self._children if not is_leaving(child)]

    @property
    def missing(self) -> int:
        """How many children are to be started; below 0: are too many."""
        return self.wanted - len(self.staying)

    @property
    def is_complete(self) -> bool:
        """Whether all are there, and nobody else."""
        return self.missing == 0 and len(self.staying) == len(self)

    @property
    def runs(self) -> int:
        """How many runs have begun, in all children that there ever were."""
        words = (child.board.words for child in self)
        return self._buried_runs + sum(each[boards.RUNS] for each in words)

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return sum(map(running_in, self))

    def dead(self) -> Iterator[Process]:
        """Yield the children that have ended; each is closed when the next is asked for."""
        for child in [child for child in self if child.watch()]:
            self._children.remove(child)
            self._buried_runs += child.board.words[boards.RUNS]
            self._note(child, time.monotonic())
            yield child
            child.close()

    def start(
        self,
        live: Callable[[Board], None],
        pace: float,
        obituaries: list[Obituary],
        *,
        quiet: bool,
    ) -> None:
        """Start a child; `live` runs in it. The rest is how its board begins."""
        board = Board(slots=max(SLOTS, 4 * self.concurrency))
        board.obituaries = obituaries
        board.seconds[boards.PACE] = pace
        board.seconds[boards.WAKES] = math.inf
        board.words[boards.QUIET] = quiet
        board.words[boards.ROOM] = self._room
        self._children.append(Process(live, board, self._children))

    def arrange(self) -> None:
        """Give the children of a kind with one child the room that there is."""
        if self.kind.many:
            return
        if self._suspicion:
            jobs = [held for child in self for held in child.board.holdings().running]
            self._suspicion.look({held.jid for held in jobs}, time.monotonic())
        for child in self.staying[self.wanted :]:
            child.order(boards.STOP)
        for child in self.staying:
            child.order(boards.ROOM, self._room)

    @property
    def due(self) -> float:
        """When to arrange again (monotonic): when a child that leaves may have room."""
        if self._suspicion:
            return time.monotonic() + PAUSE
        if len(self.staying) < len(self):
            return time.monotonic() + CHANGE
        return math.inf

    @property
    def _free(self) -> int:
        """How many jobs may run in the children that stay."""
        return max(0, self.concurrency - sum(map(running_in, filter(is_leaving, self))))

    @property
    def _room(self) -> int:
        if self.kind.many:
            return 1
        return min(1, self._free) if self._suspicion else self._free

    def _note(self, dead: Process, now: float) -> None:
        """Take in how a child has ended: those that die young are not replaced at once."""
        words, pid = dead.board.words, dead.pid
        if not self.kind.many:
            self._suspicion.note_crash(blamed(dead), now)
        if dead.doomed is not None:
            return
        planned = dead.status == 0 and (words[boards.STOP] or words[boards.LEAVING])
        if planned:
            event(logging.DEBUG, "child left", pid=pid, runs=words[boards.RUNS])
        else:
            event(logging.ERROR, "child died", pid=pid, status=dead.status)
        if not (planned and words[boards.RUNS]):
            self.nursery.note(dead, now)


def is_leaving(child: Process) -> bool:
    """Return whether a child takes no more jobs, for good."""
    words = child.board.words
    return bool(words[boards.LEAVING] or words[boards.STOP])


def running_in(child: Process) -> int:
    """Return how many jobs run in a child."""
    return len(child.board.holdings().running)


def blamed(dead: Process) -> list[str]:
    """Return the jobs whose crash the end of a child was, as far as anybody knows."""
    running = dead.board.holdings().running
    if dead.doomed is None:
        return [held.jid for held in running]
    verdicts = dead.doomed.values()
    return [each.jid for each in verdicts if each and each.verb == "crash"]
