"""The jobs that a child holds, and the thread that does not let them wait.

While batches are quick, finished jobs are settled together with the next reservation. A
slow job in a batch would keep the finished ones unsettled and the others from being run
elsewhere; a thread steps in then. It sleeps as long as there is no batch of several
jobs, and wakes once per deadline otherwise: it costs a batch nothing and a job nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from django_qless.core import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_qless.core import Reserved
    from django_qless.worker.pools.board import Board

    # A job with its slot on the board, and how it ended.
    Outcome = tuple[int, Settlement, Reserved]

# Seconds that a finished job waits to be settled, or a held one to be started. The rest
# up to 20 ms is for getting hold of the interpreter and for the round trip.
LIMIT = 0.010

# Seconds until the next try when the server could not be reached.
AFTER_TROUBLE = 0.2

# One call settles at most 250 jobs.
MOST = 200


def hand_back(job: Reserved) -> Settlement:
    """Return the job, which was not run, to its queue at once; nothing of it counts."""
    return Settlement(job.jid, job.token, "release", (0,))


def with_held(settlement: Settlement, seconds: float) -> Settlement:
    """Return the settlement with the seconds that the job was held before its run.

    Of a job that was not run it stays as it is.
    """
    if settlement.held is None:
        return settlement
    return Settlement(*settlement[:4], seconds)


class Batch:
    """Jobs waiting for their turn, and outcomes that the server does not know yet.

    A deque's append and popleft are atomic, so two threads need no lock for single
    jobs: each job is either run or handed back, each outcome sent by one of them.
    """

    def __init__(
        self,
        board: Board,
        settle: Callable[[Sequence[Outcome]], bool],
        return_prefetched: Callable[[], None] = lambda: None,
    ) -> None:
        """Settle with this function what must not wait.

        It raises nothing, and returns False if it has to be tried again. `return_prefetched`
        returns prefetched jobs to their queues; it raises nothing either.
        """
        self.waiting: deque[tuple[int, Reserved]] = deque()
        self.outcomes: deque[Outcome] = deque()
        #: Jobs handed back unstarted, which the reserver is to know of.
        self.given_back: deque[Reserved] = deque()
        #: How often somebody has stepped in, twice: odd while it is going on.
        self.early_steps = 0
        #: Since when (monotonic) this batch may make somebody wait; 0.0: it does not.
        self.since = 0.0
        self._settle = settle
        self._return_prefetched = return_prefetched
        self._board = board
        self._lock = threading.Lock()
        self._settling = threading.Lock()

    def load(self, held: Iterable[tuple[int, Reserved]], now: float) -> None:
        """Hold these jobs, shown in these slots, from `now` (monotonic) on."""
        with self._lock:
            self.waiting.extend(held)
            self.since = now if len(self.waiting) > 1 or self.outcomes else 0.0

    def done(self) -> None:
        """Take in that all jobs of the batch have been run or handed back."""
        self.since = 0.0

    def take_outcomes(self, most: int) -> list[Outcome]:
        """Return and forget up to `most` outcomes, the oldest first."""
        taken: list[Outcome] = []
        try:
            while len(taken) < most:
                taken.append(self.outcomes.popleft())
        except IndexError:
            pass
        return taken

    def put_back(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes that could not be sent."""
        self.outcomes.extendleft(reversed(outcomes))

    def drop(self, tokens: set[str]) -> None:
        """Do not start jobs whose locks are lost."""
        with self._lock:
            entries = list(self.waiting)
            self.waiting.clear()
            for entry in entries:
                if entry[1].token in tokens:
                    self._board.free(entry[0])
                else:
                    self.waiting.append(entry)

    def give_up_waiting(self) -> None:
        """Hand back what has not been started."""
        try:
            while True:
                self.give_back(*self.waiting.popleft())
        except IndexError:
            pass

    def give_back(self, slot: int, job: Reserved) -> None:
        """Hand back a job that was not started."""
        self.outcomes.append((slot, hand_back(job), job))
        self.given_back.append(job)

    def step_in(self, since: float) -> bool:
        """Settle what is finished and hand back what waits, unless it is over.

        `since` is the batch's own: another one is left alone. Returns False if the
        server could not be reached: what is owed is still here.
        """
        with self._settling:
            with self._lock:
                if self.since != since:
                    return True
                self.since = 0.0
                self.early_steps += 1
                self.give_up_waiting()
            try:
                self._return_prefetched()
                return self.settle_now()
            finally:
                self.early_steps += 1

    def settle_now(self) -> bool:
        """Settle what is finished; return False if the server could not be reached."""
        while outcomes := self.take_outcomes(MOST):
            if not self._settle(outcomes):
                return False
        return True

    def leave(self) -> None:
        """Return when nobody steps in any more."""
        self.since = 0.0
        with self._settling:
            pass


class WatchedBatch(Batch):
    """A batch with a thread that steps in by itself when a job takes too long."""

    def __init__(
        self,
        board: Board,
        settle: Callable[[Sequence[Outcome]], bool],
        return_prefetched: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(board, settle, return_prefetched)
        self._called = threading.Event()
        self._watching = False
        self._leaving = False
        self._thread: threading.Thread | None = None

    def load(self, held: Iterable[tuple[int, Reserved]], now: float) -> None:
        """Hold these jobs; see Batch.load."""
        super().load(held, now)
        if self.since and not self._watching:
            self._call_watchman()

    def leave(self) -> None:
        """Return when the thread has done what it is at."""
        self._leaving = True
        super().leave()

    def settle_now(self) -> bool:
        """Settle what is finished, however long that takes, while the next job runs."""
        while not super().settle_now():
            if self._leaving:
                return False
            time.sleep(AFTER_TROUBLE)
        return True

    def _call_watchman(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch, name="early settling", daemon=True
            )
            self._thread.start()
        self._called.set()

    def _watch(self) -> None:
        while self._called.wait():
            self._called.clear()
            self._watching = True
            while since := self.since:
                if (pause := since + LIMIT - time.monotonic()) > 0:
                    time.sleep(pause)
                else:
                    self.step_in(since)
            self._watching = False
            # A batch may have begun before it could see that nobody watches.
            if self.since:
                self._called.set()
