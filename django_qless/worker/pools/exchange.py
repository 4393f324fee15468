"""A child's calls to the server: outcomes one way, jobs the other."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core.exceptions import ConnectionLost, QlessError
from django_qless.worker.heartbeat import pace_for
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.accounts import (
    MOST_OUTCOMES,
    PATIENCE,
    Accounts,
    check_wait,
    is_about_the_call,
)
from django_qless.worker.pools.lock_expiry import boottime

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence

    from django_qless.core import (
        After,
        Client,
        PendingCall,
        Reserved,
        Settled,
        Settlement,
    )
    from django_qless.worker.pools.batch import Batch, Outcome
    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker

    # Does this, and returns what it returns; None if an order has ended it.
    Sleep = Callable[[Callable[[], Settled]], Settled | None]


class Prefetch(NamedTuple):
    """A pending call that reserves the next jobs and settles finished ones."""

    call: PendingCall[Settled]
    asked: tuple[str, ...]
    outcomes: Sequence[Outcome]
    #: When it was sent, by the clock that goes on in a suspended machine, and by the other.
    sent: float
    began: float
    early_steps: int


class Exchange(Accounts["Outcome"]):
    """Settles jobs and reserves new ones.

    Prefetching, it sends a call before a batch runs and reads the reply after it.
    """

    client: Client

    def __init__(
        self, worker: Worker, board: Board, ring: Callable[[], None], batch: Batch
    ) -> None:
        """`ring` is called when the parent has to look at the board."""
        super().__init__(worker, board, ring)
        self.batch = batch
        self.client = worker.client(PATIENCE)
        # Who settles early must not take the other's place in the line of idle clients.
        self.early_client = worker.client(PATIENCE)
        #: The jobs of the last call with their slots on the board.
        self.taken: list[tuple[int, Reserved]] = []
        #: Since when they are in our hands (monotonic).
        self.received = 0.0
        # Its reply is read by the main thread, or by the thread that settles early.
        self._prefetch: Prefetch | None = None
        self._reading = threading.Lock()
        # A wait of which nobody knows whether it has brought jobs, what it asked and when.
        self._unanswered: tuple[After[Settled], tuple[str, ...], float] | None = None

    # Asking.

    def reserve(self, count: int) -> Settled | None:
        """Settle what is finished and reserve up to `count` jobs, in one call.

        Returns None if it has to be asked again. Raises what the call raises.
        """
        if self._unanswered:
            return self.find_out()
        with self._reading:
            if prefetch := self._prefetch:
                return self.or_again(self.read(prefetch), prefetch.early_steps)
        early_steps = self.batch.early_steps
        asked = self.ask()
        sent = boottime()
        try:
            settled = self.send(asked, count)
            if settled:
                self.take_in(asked, settled, sent)
        finally:
            self.board.words[boards.CALLS] += 1
        return self.or_again(settled, early_steps)

    def ask(self) -> tuple[str, ...]:
        """Begin a call that reserves jobs; return the queues to ask."""
        batch, words = self.batch, self.board.words
        if batch.given_back:
            self.reserver.gave_back(drained(batch.given_back))
        asked = tuple(self.reserver.order())
        words[boards.DRY] = 0
        words[boards.CALLS] += 1
        return asked

    def or_again(self, settled: Settled | None, early_steps: int) -> Settled | None:
        """Return the answer, or None if there are no jobs and this is no moment to rest.

        Jobs may be on their way back into the queues, and what follows from a refusal
        must not wait. The number of early steps is that from before the call.
        """
        if settled is None or settled.jobs:
            return settled
        batch = self.batch
        at_work = early_steps % 2 or early_steps != batch.early_steps
        return None if at_work or batch.outcomes else settled

    # Prefetching.

    def prefetch(self, count: int) -> None:
        """Send a call that settles finished jobs and reserves `count` more; do not wait.

        The next `reserve` returns its result, and raises its errors.
        """
        batch, words = self.batch, self.board.words
        early_steps = batch.early_steps
        asked = self.ask()
        outcomes = batch.take_outcomes(MOST_OUTCOMES)
        sent, began = boottime(), time.monotonic()
        try:
            call = self.client.start(self.request(asked, outcomes, count))
        except BaseException as error:
            # The next ordinary call meets the same error, and handles it.
            words[boards.CALLS] += 1
            batch.put_back(outcomes)
            if not isinstance(error, QlessError):
                raise
            return
        words[boards.PREFETCH] = words[boards.CALLS]
        self._prefetch = Prefetch(call, asked, outcomes, sent, began, early_steps)

    def return_prefetched(self) -> None:
        """Return prefetched jobs to their queues. Raises the errors of the pending call."""
        with self._reading:
            if (prefetch := self._prefetch) and self.read(prefetch):
                for slot, job in self.taken:
                    self.batch.give_back(slot, job)

    def read(self, prefetch: Prefetch) -> Settled | None:
        """Return the result of the pending call; None if a new call is needed."""
        self._prefetch = None
        self.taken = []
        try:
            settled = self.answered_by(prefetch.call.result, prefetch.outcomes)
            if settled:
                # A repeated request may have been executed much later.
                since = None if prefetch.call.was_repeated else prefetch.began
                self.take_in(prefetch.asked, settled, prefetch.sent, since=since)
        finally:
            self.board.words[boards.CALLS] += 1
            self.board.words[boards.PREFETCH] = 0
        return settled

    def wait(self, known: Settled, sleep: Sleep) -> Settled | None:
        """Block where the server said that jobs are announced, and reserve the first.

        Both in one round trip. An order may end the sleep: what was handed out in that
        moment is here all the same. Returns None if it has to be asked again. Raises
        what the call raises.
        """
        seconds = known.wait_seconds or 0.0
        asked = tuple(self.reserver.order())
        after = self.client.after(known.wait_keys, seconds, self.request(asked, (), 1))
        began = time.monotonic()
        self.board.words[boards.CALLS] += 1
        sent = boottime()
        self._unanswered = after, asked, sent
        try:
            settled = sleep(after.run)
        except QlessError as error:
            # If the server may have heard us, its answer is still due.
            if not isinstance(error, ConnectionLost):
                self.answered()
            raise
        if settled is None:
            return self.find_out()
        self.take_in(asked, settled, sent, waited=True)
        self.answered()
        if not settled.jobs:
            check_wait(announced=after.announced, began=began, seconds=seconds)
            if after.refusal:
                raise after.refusal
        return settled

    def wait_only(self, known: Settled) -> None:
        """Block where the server said that jobs are announced."""
        seconds = known.wait_seconds or 0.0
        began = time.monotonic()
        announced = self.client.blpop(known.wait_keys, seconds)
        check_wait(announced=bool(announced), began=began, seconds=seconds)

    def find_out(self) -> Settled:
        """Return what a wait has brought that was broken off; it brings nothing more."""
        assert self._unanswered is not None
        after, asked, sent = self._unanswered
        try:
            settled = after.run_instead(self.request((), (), 0))
            self.take_in(asked, settled, sent, waited=True)
        except ConnectionLost:
            raise
        except BaseException:
            self.answered()
            raise
        self.answered()
        return settled

    @property
    def is_waiting_for_answer(self) -> bool:
        """Whether a wait may have brought jobs that we do not know of."""
        return self._unanswered is not None

    def answered(self) -> None:
        """Note that no answer to a wait is due any more."""
        self._unanswered = None
        self.board.words[boards.CALLS] += 1

    def show(self, jobs: Sequence[Reserved], since: float) -> None:
        """Publish the jobs, so that the parent beats for them, and often enough."""
        board = self.board
        self.received = since
        self.taken = [(board.take(job.jid, job.token, since), job) for job in jobs]
        for slot, job in self.taken:
            if slot == board.nowhere:
                fields = {"queue": job.queue, "klass": job.klass}
                event(logging.WARNING, "no heartbeats", jid=job.jid[:100], **fields)
        self.term.shown = boottime()
        board.seconds[boards.LOCK] = lock = self.term.length
        if pace_for(lock) < board.seconds[boards.PACE]:
            self.ring()

    # Settling.

    def settle(self) -> None:
        """Settle what is finished. Raises what the call raises."""
        self.send((), 0)

    def send(self, asked: tuple[str, ...], count: int) -> Settled | None:
        """Make the call; on an error keep the outcomes that the server did not take."""
        outcomes = self.batch.take_outcomes(MOST_OUTCOMES)
        return self.answered_by(
            lambda: self.client.run(self.request(asked, outcomes, count)), outcomes
        )

    def answered_by(
        self, run: Callable[[], Settled], outcomes: Sequence[Outcome]
    ) -> Settled | None:
        """Return the answer to a call that settles these; None if it was settled singly."""
        began = time.monotonic() if self._tells else 0.0
        try:
            settled = run()
        except BaseException as error:
            left = self.keep_unsettled(outcomes, error)
            if left and is_about_the_call(error):
                self.settle_singly(left)
                return None
            self.batch.put_back(left)
            raise
        if outcomes:
            self.free(outcomes, settled)
        if self._tells:
            self.tell(len(outcomes), len(settled.jobs), began)
        return settled

    def settle_early(self, outcomes: Sequence[Outcome]) -> bool:
        """Settle while a job runs; return whether that was possible."""
        settlements = [outcome[1] for outcome in outcomes]
        began = time.monotonic()
        try:
            settled = self.early_client.settle(
                self.worker.name, settlements, count=0, queues=()
            )
        except Exception as error:  # noqa: BLE001  whatever it is, nothing is forgotten
            self.batch.put_back(self.keep_unsettled(outcomes, error))
            event(logging.DEBUG, "settling early failed", error=error)
            return False
        self.free(outcomes, settled)
        if self._tells:
            self.tell(len(outcomes), 0, began)
        return True

    def settle_singly(self, outcomes: Sequence[Outcome]) -> None:
        """Settle one by one, since one of them spoils the call for all."""
        for at, outcome in enumerate(outcomes):
            try:
                settled = self.client.settle(
                    self.worker.name, [outcome[1]], count=0, queues=()
                )
            except BaseException as error:
                if not is_about_the_call(error):
                    self.batch.put_back(outcomes[at:])
                    raise
                if not self.refuse(outcome, type(error).__name__, str(error)):
                    self.board.free(outcome[0])
            else:
                self.free([outcome], settled)

    def settle_instead(self, outcome: Outcome, settlement: Settlement) -> None:
        """Settle a job in this way, for how it ended the server does not take."""
        self.batch.outcomes.append((outcome[0], settlement, outcome[2]))


def drained(jobs: deque[Reserved]) -> list[Reserved]:
    """Return and forget what is in a deque that somebody else may fill."""
    return [jobs.popleft() for _ in range(len(jobs))]
