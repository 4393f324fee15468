"""The jobs that a crew holds, and the outcomes that the server does not know yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from django_qless.worker.pools.batch import hand_back, with_held
from django_qless.worker.pools.lock_expiry import Term, boottime

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from django_qless.core import Reserved, Settlement
    from django_qless.worker.pools.board import Board


class Item(NamedTuple):
    """A job that waits for its turn."""

    slot: int
    job: Reserved
    #: Since when (monotonic).
    since: float
    #: For how long its lock holds.
    term: Term


class Outcome(NamedTuple):
    """How a job ended."""

    slot: int
    settlement: Settlement
    job: Reserved
    #: When (monotonic).
    since: float


class Stock:
    """What is held, in memory and on the board, from the reservation to the settlement.

    Loaded and emptied by the event loop; whoever runs jobs takes them from `waiting`,
    in any thread. What threads share are deques and dicts, whose single operations are
    atomic: each job is either run or handed back, each outcome sent once.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        #: All jobs that wait or run, by the tokens of their locks, with their slots.
        self.held: dict[str, tuple[int, Reserved]] = {}
        self.waiting: deque[Item] = deque()
        self.outcomes: deque[Outcome] = deque()
        #: How many runs have ended, and how many seconds they took together.
        self.ended = 0
        self.seconds = 0.0
        self._counting = threading.Lock()

    @property
    def running(self) -> int:
        """How many jobs run."""
        return len(self.held) - len(self.waiting)

    def load(
        self,
        jobs: Sequence[Reserved],
        term: Term | None = None,
        since: float | None = None,
    ) -> None:
        """Hold new jobs, in the order in which to run them, for this term.

        They are in our hands `since` then (monotonic; None: now).
        """
        now, term = time.monotonic() if since is None else since, term or Term()
        take, held, wait = self.board.take, self.held, self.waiting.append
        for job in jobs:
            slot = take(job.jid, job.token, now)
            held[job.token] = slot, job
            wait(Item(slot, job, now, term))
        term.shown = boottime()

    def may_begin(self, item: Item) -> bool:
        """Return whether a job's lock still holds; if not, hand the job back."""
        if item.term.holds(self.board):
            return True
        self._hand_back(item)
        return False

    def begin(self, item: Item) -> float:
        """Show a job as running; return the time (monotonic)."""
        now = time.monotonic()
        with self._counting:
            self.board.begin(item.slot, now)
        return now

    def end(self, item: Item, settlement: Settlement, began: float) -> None:
        """Take in how a job ended."""
        slot, job = item.slot, item.job
        self.board.finish(slot)
        now = time.monotonic()
        settlement = with_held(settlement, began - item.since)
        self.outcomes.append(Outcome(slot, settlement, job, now))
        with self._counting:
            self.ended += 1
            self.seconds += now - began
        self.held.pop(job.token, None)

    def give_back(self, before: float = float("inf")) -> list[Reserved]:
        """Hand back what waits, or what has waited since before this time.

        Returns the jobs in the order in which they would have run.
        """
        given: list[Reserved] = []
        while self.waiting and self.waiting[0].since < before:
            try:
                item = self.waiting.popleft()
            except IndexError:
                break
            self._hand_back(item)
            given.append(item.job)
        return given

    def _hand_back(self, item: Item) -> None:
        self.held.pop(item.job.token, None)
        # At once: it has waited long enough.
        self.outcomes.append(Outcome(item.slot, hand_back(item.job), item.job, 0.0))

    def drop(self, tokens: Collection[str]) -> list[Reserved]:
        """Forget the waiting jobs whose locks are lost; return those that run."""
        for item in list(self.waiting):
            if item.job.token in tokens:
                try:
                    self.waiting.remove(item)
                except ValueError:
                    continue  # it has just been started
                self.held.pop(item.job.token, None)
                self.board.free(item.slot)
        return [known[1] for token in tokens if (known := self.held.get(token))]

    def running_jobs(self) -> list[Reserved]:
        """Return the jobs that run."""
        waiting = {item.job.token for item in list(self.waiting)}
        held = list(self.held.values())
        return [job for _, job in held if job.token not in waiting]

    def take_outcomes(self, most: int) -> list[Outcome]:
        """Return and forget up to `most` outcomes, the oldest first, of different jobs.

        A job that was lost and is here again may have ended twice, but the server's
        refusal of one of the two says no more than the job's id.
        """
        taken: list[Outcome] = []
        jids: set[str] = set()
        while len(taken) < most:
            try:
                outcome = self.outcomes.popleft()
            except IndexError:
                break
            if outcome.job.jid in jids:
                self.outcomes.appendleft(outcome)
                break
            jids.add(outcome.job.jid)
            taken.append(outcome)
        return taken

    def put_back(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes that could not be sent."""
        self.outcomes.extendleft(reversed(outcomes))
