"""A child's calls to the server: outcomes one way, jobs the other.

They are written once, as generators that yield calls (see `core.request`): a blocking
child drives them with `blocking_channel.py`, one with an event loop with
`async_channel.py`.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django_qless.core import Client
from django_qless.core.exceptions import QlessError, ServerError
from django_qless.worker import failure_report
from django_qless.worker.crash_reports import lost_for_good
from django_qless.worker.heartbeat import interval_for
from django_qless.worker.known_queues import KnownQueues
from django_qless.worker.log import CALLS, is_enabled, log_event, log_job_event
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.locks import LockTerm, ServerClock
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.core import AsyncClient, Reserved, Settled
    from django_qless.core.request import Request, Steps
    from django_qless.worker.pools.buffer import Item, JobBuffer, Outcome
    from django_qless.worker.worker import Worker

# Seconds for which an idle child blocks at most before it asks again. It is woken when
# a job comes: this limits the delay when that wake-up is lost with another worker.
WAIT = 5.0

# The same where sentinels or a cluster name the server: a former primary that hangs, in
# the middle of a block, is noticed so much sooner.
FOLLOWING_WAIT = 3.0

# Seconds for which a call is repeated before the child looks around again.
PATIENCE = 5.0

# Seconds for which a lookup of the queues is tried; the last one serves as well.
LOOKUP_PATIENCE = 0.5

# Seconds until the next try of what could not be settled or found out.
AFTER_TROUBLE = 0.2

# One call settles and reserves at most 250 jobs.
MOST_OUTCOMES = 150

# Requests without outcomes that are cached; reservers may shuffle the queues.
MOST_IDLE_REQUESTS = 100

# Refusals of outcomes of jobs that another worker may have: nothing is left to do.
GONE = ("LOCKLOST", "NOJOB", "STATE")


class Channel(ABC):
    """Settles jobs and reserves new ones.

    An outcome is kept until the server has taken or refused it.
    """

    client: Client | AsyncClient
    #: For settling beside a wait or a run: the server tells idle clients apart, and
    #: this one must not take the place of the other.
    early_client: Client | AsyncClient

    def __init__(
        self, worker: Worker, buffer: JobBuffer, wake_parent: Callable[[], None]
    ) -> None:
        """`wake_parent` is called when the parent has to look at the shared state."""
        self.worker = worker
        self.buffer = buffer
        self.shared = buffer.shared
        self.wake_parent = wake_parent
        self.reserver = worker.reserver()
        self.known_queues = KnownQueues()
        self.lookup_client = worker.client(LOOKUP_PATIENCE)
        self.idle_requests: dict[tuple[tuple[str, ...], int], Request[Settled]] = {}
        #: Jobs whose outcome the server has refused: their locks were lost.
        self.lost: deque[Reserved] = deque()
        self.server_clock = ServerClock()
        #: For how long the locks hold that came with the last jobs.
        self.term = LockTerm()
        self._full: tuple[str, ...] = ()
        self._logs_calls = is_enabled(CALLS)

    @abstractmethod
    def receive(self, items: list[Item]) -> None:
        """Take new jobs, which are held, in the order in which to run them."""

    # Calls.

    def call(self, asked: tuple[str, ...], count: int) -> Steps[Settled | None]:
        """Settle what is finished and reserve up to `count` jobs from these queues.

        Returns None if it has to be called again.
        """
        ints = self.shared.ints
        ints[shared_state.QUEUES_EMPTY] = 0
        ints[shared_state.CALLS] += 1
        sent = boottime()
        try:
            settled = yield from self.send(self.client, asked, count)
            if settled:
                self.accept(asked, settled, sent)
        finally:
            ints[shared_state.CALLS] += 1
        return settled

    def send(
        self, client: Any, asked: tuple[str, ...] = (), count: int = 0
    ) -> Steps[Settled | None]:
        """Settle what is finished, and perhaps reserve.

        On an error the outcomes that the server did not take are kept. Returns None if
        they were settled one by one.
        """
        outcomes = self.buffer.take_outcomes(MOST_OUTCOMES)
        return (
            yield from self.answer(
                client,
                lambda: client.run(self.request(asked, outcomes, count)),
                outcomes,
            )
        )

    def answer(
        self, client: Any, run: Callable[[], Any], outcomes: Sequence[Outcome]
    ) -> Steps[Settled | None]:
        """Return the answer to a call that settles these outcomes; see `send`."""
        began = time.monotonic()
        try:
            settled = yield run()
        except BaseException as error:
            left = self.unsettled(outcomes, error)
            if left and is_about_the_call(error):
                yield from self.settle_singly(client, left)
                return None
            self.buffer.put_back(left)
            raise
        if outcomes:
            self.free(outcomes, settled)
        if self._logs_calls:
            counts = {"settled": len(outcomes), "reserved": len(settled.jobs)}
            log_event(CALLS, "call", **counts, seconds=time.monotonic() - began)
        answer: Settled = settled
        return answer

    def settle_singly(self, client: Any, outcomes: Sequence[Outcome]) -> Steps[None]:
        """Settle one by one, as one of them spoils the call for all."""
        for at, outcome in enumerate(outcomes):
            try:
                settled = yield client.settle(
                    self.worker.name, [outcome.settlement], count=0, queues=()
                )
            except BaseException as error:
                if not is_about_the_call(error):
                    self.buffer.put_back(outcomes[at:])
                    raise
                if not self.refuse(outcome, type(error).__name__, str(error)):
                    self.shared.free(outcome.slot)
            else:
                self.free([outcome], settled)

    def wait_for_announcement(self, known: Settled) -> Steps[None]:
        """Block where the server said that jobs are announced."""
        seconds, began = known.wait_seconds or 0.0, time.monotonic()
        announced = yield self.client.blpop(known.wait_keys, seconds)
        check_wait(announced=bool(announced), began=began, seconds=seconds)

    # Requests and replies.

    def next_order(self) -> tuple[str, ...]:
        """Return the queues to ask, in their order; may ask the server for it."""
        self.look_up_queues()
        return self.reserver.order(self.known_queues)

    def look_up_queues(self) -> None:
        """Ask the server for the queues if the reserver needs newer figures."""
        known, reserver = self.known_queues, self.reserver
        if reserver.max_age is None or not known.is_stale(reserver.max_age):
            return
        surveys, began = None, time.monotonic()
        try:
            surveys = self.lookup_client.survey(reserver.surveyed)
        except QlessError as error:
            log_event(logging.DEBUG, "the queues could not be looked up", error=error)
        known.update(surveys, began)

    def report_returned(self) -> None:
        """Tell the reserver which jobs were returned."""
        returned = self.buffer.returned
        if returned:
            self.reserver.returned([returned.popleft() for _ in range(len(returned))])

    @cached_property
    def longest_wait(self) -> float:
        """Seconds for which an idle child blocks at most."""
        return FOLLOWING_WAIT if self.client.follows_primary else WAIT

    def request(
        self, asked: tuple[str, ...], outcomes: Sequence[Outcome], count: int
    ) -> Request[Settled]:
        """Return the call; those without outcomes are cached, for idle children."""
        full = self.shared.full_queues()
        if full != self._full:
            self._full = full
            self.idle_requests.clear()
        if not outcomes and (known := self.idle_requests.get((asked, count))):
            return known
        request = Client.settle.build(
            self.client,
            self.worker.name,
            [outcome.settlement for outcome in outcomes],
            count=count,
            queues=asked,
            exclude=(*self.worker.options.exclude, *full) if count else (),
            wait=self.longest_wait if count else None,
            turns=self.reserver.turns and count > 1,
            exhausted=count > 0,
        )
        if not outcomes and len(self.idle_requests) < MOST_IDLE_REQUESTS:
            self.idle_requests[asked, count] = request
        return request

    def accept(
        self,
        asked: tuple[str, ...],
        settled: Settled,
        sent: float,
        *,
        waited: bool = False,
        since: float | None = None,
    ) -> None:
        """Hold the jobs that a reserving call has brought.

        The request was `sent` then (boottime), and may have `waited` at the server. The
        jobs are held `since` then (monotonic; None: now).
        """
        shared, jobs = self.shared, settled.jobs
        self.term = LockTerm()
        if settled.now:
            self.term = self.server_clock.term(settled, sent, waited=waited)
        for lost in settled.exhausted:
            log_job_event(logging.ERROR, "failed", lost.job, group=lost.group)
            shared.crash_reports.append(lost_for_good(lost))
        self.reserver.taken(asked, jobs)
        if jobs:
            items = self.buffer.hold(self.reserver.arrange(jobs), self.term, since)
            for item in items:
                if item.slot == shared.nowhere:
                    fields = {"queue": item.job.queue, "klass": item.job.klass}
                    jid = item.job.jid[:100]
                    log_event(logging.WARNING, "no heartbeats", jid=jid, **fields)
            shared.floats[shared_state.LOCK_SECONDS] = self.term.length
            interval = shared.floats[shared_state.HEARTBEAT_INTERVAL]
            if interval_for(self.term.length) < interval:
                self.wake_parent()
            self.receive(items)
        shared.ints[shared_state.READY] = 1
        shared.floats[shared_state.LAST_ANSWER] = time.monotonic()

    def unsettled(
        self, outcomes: Sequence[Outcome], error: BaseException
    ) -> Sequence[Outcome]:
        """Return the outcomes that a failed call has left unsettled.

        A call that is split may have settled some before the error.
        """
        done = getattr(error, "done", 0)
        for outcome in outcomes[:done]:
            self.shared.free(outcome.slot)
        return outcomes[done:]

    def free(self, outcomes: Sequence[Outcome], settled: Settled) -> None:
        """Free the slots of settled jobs, and handle refusals."""
        kept: set[int] = set()
        if settled.refused:
            sent = {outcome.job.jid: outcome for outcome in outcomes}
            for refused in settled.refused:
                outcome = sent[refused.jid]
                if self.refuse(outcome, refused.code, refused.text):
                    kept.add(outcome.slot)
        for outcome in outcomes:
            if outcome.slot not in kept:
                self.shared.free(outcome.slot)

    def refuse(self, outcome: Outcome, code: str, text: str) -> bool:
        """Log a refused outcome; if the job is still held, it fails instead.

        Returns whether it is.
        """
        settlement, job = outcome.settlement, outcome.job
        verb = settlement.verb
        level = logging.DEBUG if verb == "release" else logging.WARNING
        log_job_event(level, "refused", job, verb=verb, why=code, text=text)
        if code in GONE:
            if verb != "release":
                self.lost.append(job)
            return False
        if settlement.args[:1] == (failure_report.REFUSED,):
            return False
        args = failure_report.refusal(verb, text)
        failure = settlement._replace(verb="fail", args=args)
        self.buffer.outcomes.append(outcome._replace(settlement=failure))
        return True


def check_wait(*, announced: bool, began: float, seconds: float) -> None:
    """Raise InterruptedError if a wait was cut short: the connection was lost."""
    if not announced and time.monotonic() - began < seconds / 2:
        raise InterruptedError("the wait for jobs was cut short")


def is_about_the_call(error: BaseException) -> bool:
    """Return whether the server or its client rejects the call's content.

    It would do so again, unlike after trouble with the server or with the connection.
    """
    return isinstance(error, QlessError) and not isinstance(error, ServerError)
