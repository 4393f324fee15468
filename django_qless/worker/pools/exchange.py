"""A child's calls to the server: outcomes one way, jobs the other."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_qless.core import Client, Settlement
from django_qless.core.exceptions import QlessError, ServerError
from django_qless.worker import failures
from django_qless.worker.heartbeat import LockLength, pace_for
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.core import Reserved, Settled
    from django_qless.core.calls import Request
    from django_qless.worker.pools.batch import Outcome
    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker

# Seconds an idle child blocks at most before it asks again. It is woken when a job comes:
# this bounds the harm of a wake-up that got lost with another worker.
WAIT = 5.0

# Seconds for which a call is repeated before the child looks around again.
PATIENCE = 5.0

# One call settles and reserves at most 250 jobs.
MOST_OUTCOMES = 150

# Calls without outcomes that are kept ready; reservers may shuffle the queues.
MOST_QUESTIONS = 100

# Refusals that say: the job is no longer ours, so there is nothing left to do.
GONE = ("LOCKLOST", "NOJOB", "STATE")


class Exchange:
    """Settles jobs and reserves new ones, and shows on the board what is held.

    An outcome is kept until the server has taken or refused it.
    """

    def __init__(self, worker: Worker, board: Board, ring: Callable[[], None]) -> None:
        """`ring` is called when the parent has to look at the board."""
        self.worker = worker
        self.board = board
        self.ring = ring
        self.client = worker.client(PATIENCE)
        # The thread that settles early must not take the other's place in the line of
        # idle clients.
        self.early_client = worker.client(PATIENCE)
        self.reserver = worker.reserver()
        self.questions: dict[tuple[tuple[str, ...], int], Request[Settled]] = {}
        self.lock_length = LockLength(self.client)
        self.batch = Batch(board, self.settle_early)
        #: The jobs of the last call with their slots on the board.
        self.taken: list[tuple[int, Reserved]] = []

    def reserve(self, count: int) -> Settled | None:
        """Settle what is finished and reserve up to `count` jobs, in one call.

        Returns None if it has to be asked again. Raises what the call raises.
        """
        words, batch = self.board.words, self.batch
        early_steps = batch.early_steps
        words[boards.DRY] = 0
        words[boards.CALLS] += 1
        try:
            settled = self.send(count)
            if settled and settled.jobs:
                self.show(settled.jobs)
        finally:
            words[boards.CALLS] += 1
        words[boards.READY] = 1
        self.board.seconds[boards.ASKED] = time.monotonic()
        if settled is None or settled.jobs:
            return settled
        # Jobs may be on their way back into the queues, and what follows from a refusal
        # must not wait: then this is no moment to rest.
        at_work = early_steps % 2 or early_steps != batch.early_steps
        return None if at_work or batch.outcomes else settled

    def settle(self) -> None:
        """Settle what is finished. Raises what the call raises."""
        self.send(0)

    def send(self, count: int) -> Settled | None:
        """Make the call; on an error keep the outcomes that the server did not take."""
        outcomes = self.batch.take_outcomes(MOST_OUTCOMES)
        try:
            settled = self.client.run(self.request(outcomes, count))
        except BaseException as error:
            left = self.keep_unsettled(outcomes, error)
            if left and is_about_the_call(error):
                self.settle_singly(left)
                return None
            self.batch.put_back(left)
            raise
        self.free(outcomes, settled)
        return settled

    def request(self, outcomes: Sequence[Outcome], count: int) -> Request[Settled]:
        """Return the call; what an idle child asks is made once, not while a job waits."""
        queues = tuple(self.reserver.order()) if count else ()
        if not outcomes and (known := self.questions.get((queues, count))):
            return known
        request = Client.settle.build(
            self.client,
            self.worker.name,
            [settlement for _, settlement in outcomes],
            count=count,
            queues=queues,
            exclude=self.worker.options.exclude if count else (),
            wait=WAIT if count else None,
        )
        if not outcomes and len(self.questions) < MOST_QUESTIONS:
            self.questions[queues, count] = request
        return request

    def show(self, jobs: Sequence[Reserved]) -> None:
        """Publish the jobs, so that the parent beats for them, and often enough."""
        board = self.board
        self.taken = [(board.take(job.jid, job.token), job) for job in jobs]
        for slot, job in self.taken:
            if slot == board.nowhere:
                event(logging.WARNING, "no heartbeats", jid=job.jid[:100])
        lock = self.lock_length.shortest(jobs)
        board.seconds[boards.LOCK] = lock
        if pace_for(lock) < board.seconds[boards.PACE]:
            self.ring()

    def settle_early(self, outcomes: Sequence[Outcome]) -> bool:
        """Settle while a job runs; return whether that was possible."""
        settlements = [settlement for _, settlement in outcomes]
        try:
            settled = self.early_client.settle(
                self.worker.name, settlements, count=0, queues=()
            )
        except Exception as error:  # noqa: BLE001  whatever it is, nothing is forgotten
            self.batch.put_back(self.keep_unsettled(outcomes, error))
            event(logging.DEBUG, "settling early failed", error=error)
            return False
        self.free(outcomes, settled)
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
                if not self.refuse(*outcome, type(error).__name__, str(error)):
                    self.board.free(outcome[0])
            else:
                self.free([outcome], settled)

    def keep_unsettled(
        self, outcomes: Sequence[Outcome], error: BaseException
    ) -> Sequence[Outcome]:
        """Return the outcomes that a call which failed so has left unsettled.

        A call that is split may have settled some before.
        """
        done = getattr(error, "done", 0)
        for slot, _ in outcomes[:done]:
            self.board.free(slot)
        return outcomes[done:]

    def free(self, outcomes: Sequence[Outcome], settled: Settled) -> None:
        """Take in how a call has answered: what is settled is held no longer."""
        kept: set[int] = set()
        if settled.refused:
            sent = {outcome[1].jid: outcome for outcome in outcomes}
            for refused in settled.refused:
                slot, settlement = sent[refused.jid]
                if self.refuse(slot, settlement, refused.code, refused.text):
                    kept.add(slot)
        for slot, _ in outcomes:
            if slot not in kept:
                self.board.free(slot)

    def refuse(self, slot: int, outcome: Settlement, code: str, text: str) -> bool:
        """Log that an outcome was refused; if the job is still ours, it fails.

        Returns whether it is.
        """
        level = logging.DEBUG if outcome.verb == "release" else logging.WARNING
        event(level, "refused", jid=outcome.jid, verb=outcome.verb, why=code, text=text)
        if code in GONE or outcome.args[:1] == (failures.REFUSED,):
            return False
        words = failures.fitting(f"The server refused {outcome.verb}: {text}")
        failure = Settlement(
            outcome.jid, outcome.token, "fail", (failures.REFUSED, words)
        )
        self.batch.outcomes.append((slot, failure))
        return True


def is_about_the_call(error: BaseException) -> bool:
    """Return whether the server, or its client, objects to what the call says.

    It would do so again, unlike after trouble with the server or with the connection.
    """
    return isinstance(error, QlessError) and not isinstance(error, ServerError)
