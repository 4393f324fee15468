"""What is owed to the server, and what is known of its answers, however it is called.

No calls are made here: `exchange.py` makes them for a child and waits for the answers,
`crew_post.py` makes them for a crew in its event loop.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django_qless.core import Client, Settlement
from django_qless.core.exceptions import QlessError, ServerError
from django_qless.worker import failures
from django_qless.worker.log import CALLS, event, hears
from django_qless.worker.pools import board as boards
from django_qless.worker.pools.lock_expiry import ServerTime, Term

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Unpack

    from django_qless.core import AsyncClient, Reserved, Settled
    from django_qless.core.calls import Request
    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker

# How a job ended: its slot on the board, its settlement, the job, and maybe more.
Outcome = TypeVar(
    "Outcome", bound="tuple[int, Settlement, Reserved, Unpack[tuple[Any, ...]]]"
)

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


class Accounts(ABC, Generic[Outcome]):
    """Says what to send to the server, and takes in what it answers.

    An outcome is kept until the server has taken or refused it; what is held is shown on
    the board.
    """

    client: Client | AsyncClient

    def __init__(self, worker: Worker, board: Board, ring: Callable[[], None]) -> None:
        """`ring` is called when the parent has to look at the board."""
        self.worker = worker
        self.board = board
        self.ring = ring
        self.reserver = worker.reserver()
        self.questions: dict[tuple[tuple[str, ...], int], Request[Settled]] = {}
        #: Jobs whose end the server has refused: their locks were lost.
        self.lost: deque[Reserved] = deque()
        self.server_time = ServerTime()
        #: For how long the locks hold that came with the last jobs.
        self.term = Term()
        self._tells = hears(CALLS)

    @abstractmethod
    def show(self, jobs: Sequence[Reserved], since: float) -> None:
        """Hold these new jobs, in the order in which to run them, and publish them.

        They are in our hands `since` then (monotonic).
        """

    @abstractmethod
    def settle_instead(self, outcome: Outcome, settlement: Settlement) -> None:
        """Settle a job in this way, for how it ended the server does not take."""

    # Asking.

    def request(
        self, asked: tuple[str, ...], outcomes: Sequence[Outcome], count: int
    ) -> Request[Settled]:
        """Return the call; what the idle ask is made once, not while a job waits."""
        if not outcomes and (known := self.questions.get((asked, count))):
            return known
        request = Client.settle.build(
            self.client,
            self.worker.name,
            [outcome[1] for outcome in outcomes],
            count=count,
            queues=asked,
            exclude=self.worker.options.exclude if count else (),
            wait=WAIT if count else None,
            turns=self.reserver.turns and count > 1,
        )
        if not outcomes and len(self.questions) < MOST_QUESTIONS:
            self.questions[asked, count] = request
        return request

    def take_in(
        self,
        asked: tuple[str, ...],
        settled: Settled,
        sent: float,
        *,
        waited: bool = False,
        since: float | None = None,
    ) -> None:
        """Take in what a reserving call has brought: it is held, and shown.

        The request was `sent` then (boottime), and may have `waited` at the server. The
        jobs are in our hands `since` then (monotonic; None: now).
        """
        jobs = settled.jobs
        self.term = Term()
        if settled.now:
            self.term = self.server_time.term(settled, sent, waited=waited)
        self.reserver.took(asked, jobs)
        if jobs:
            now = time.monotonic() if since is None else since
            self.show(self.reserver.arrange(jobs), now)
        self.board.words[boards.READY] = 1
        self.board.seconds[boards.ASKED] = time.monotonic()

    # Settling.

    def keep_unsettled(
        self, outcomes: Sequence[Outcome], error: BaseException
    ) -> Sequence[Outcome]:
        """Return the outcomes that a call which failed so has left unsettled.

        A call that is split may have settled some before.
        """
        done = getattr(error, "done", 0)
        for outcome in outcomes[:done]:
            self.board.free(outcome[0])
        return outcomes[done:]

    def free(self, outcomes: Sequence[Outcome], settled: Settled) -> None:
        """Take in how a call has answered: what is settled is held no longer."""
        kept: set[int] = set()
        if settled.refused:
            sent = {outcome[1].jid: outcome for outcome in outcomes}
            for refused in settled.refused:
                outcome = sent[refused.jid]
                if self.refuse(outcome, refused.code, refused.text):
                    kept.add(outcome[0])
        for outcome in outcomes:
            if outcome[0] not in kept:
                self.board.free(outcome[0])

    def refuse(self, outcome: Outcome, code: str, text: str) -> bool:
        """Log that an outcome was refused; if the job is still ours, it fails.

        Returns whether it is.
        """
        settlement, job = outcome[1], outcome[2]
        verb, jid = settlement.verb, job.jid
        level = logging.DEBUG if verb == "release" else logging.WARNING
        names = {"queue": job.queue, "jid": jid, "klass": job.klass}
        event(level, "refused", **names, verb=verb, why=code, text=text)
        if code in GONE:
            if verb != "release":
                self.lost.append(job)
            return False
        if settlement.args[:1] == (failures.REFUSED,):
            return False
        words = failures.fitting(f"The server refused {verb}: {text}")
        failure = settlement._replace(verb="fail", args=(failures.REFUSED, words))
        self.settle_instead(outcome, failure)
        return True

    def tell(self, settled: int, reserved: int, began: float) -> None:
        """Log a call."""
        seconds = time.monotonic() - began
        event(CALLS, "called", settled=settled, reserved=reserved, seconds=seconds)


def check_wait(*, announced: bool, began: float, seconds: float) -> None:
    """Raise InterruptedError if a wait was cut short: the connection was lost."""
    if not announced and time.monotonic() - began < seconds / 2:
        raise InterruptedError("the wait for jobs was cut short")


def is_about_the_call(error: BaseException) -> bool:
    """Return whether the server, or its client, objects to what the call says.

    It would do so again, unlike after trouble with the server or with the connection.
    """
    return isinstance(error, QlessError) and not isinstance(error, ServerError)
