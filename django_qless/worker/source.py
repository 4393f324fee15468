"""A source: one alias as the parent of a worker sees it.

It reserves jobs, waits for them, and reports how they ended. One task uses one connection:

    reserve     settles what has ended and reserves in the same call; waits with BZPOPMIN
    settle      settles what ends during such a wait
    beat        renews locks                           } locks.py
    listen      the events of this worker              }
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from django_qless.core import Client, Settled, Settlement
from django_qless.core.exceptions import QlessError, ServerError
from django_qless.core.request import single
from django_qless.worker import failure_report
from django_qless.worker.children import Held
from django_qless.worker.crash_reports import CrashReport, failure_of
from django_qless.worker.known_queues import KnownQueues
from django_qless.worker.locks import ServerClock
from django_qless.worker.log import (
    CALLS,
    is_enabled,
    is_final_failure,
    log_event,
    log_job_event,
)
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from django_qless.core import Job, QueueSurvey, Reserved
    from django_qless.core.request import Command
    from django_qless.worker.reservers import Reserver
    from django_qless.worker.transport import Transport

#: Seconds for which a source without jobs blocks at most before it asks again. It is woken
#: when a job comes: this limits the delay when that wake-up was lost with another worker.
#: (The core expects it of idle workers: LOOK in lua/wake.lua.)
WAIT = 5.0

#: Seconds for which outcomes wait for others, while no child is idle for them.
COMPANY = 0.010

#: Seconds for which a call that has no answer yet claims room for what it may bring.
CLAIM = 0.25

#: The longest time of a call for which jobs are reserved ahead, in seconds.
AHEAD_MOST = 0.020

#: The most outcomes, and the most jobs, of one call.
MOST_OUTCOMES, MOST_JOBS = 150, 100

#: Until the size of jobs is known, one call asks for FEW; then for what BYTES hold.
FEW, BYTES = 32, 4 * 1024 * 1024

#: Seconds to the next try after an error: the first, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0

#: Refusals of outcomes of jobs that another worker may have: nothing is left to do.
GONE = ("LOCKLOST", "NOJOB", "STATE")


class Outcome(NamedTuple):
    """The end of a held job, until the server knows it."""

    settlement: Settlement
    job: Reserved
    #: True if the process died in which it ran: another one is to send its signals.
    has_died: bool = False


class Source:
    """The jobs of one alias: where they come from, and where their ends are reported."""

    def __init__(
        self,
        alias: str,
        client: Client,
        worker: str,
        reserver: Reserver,
        exclude: Sequence[str],
        transports: tuple[Transport, Transport],
        room: Callable[[Source], int],
        arrived: Callable[[], None],
    ) -> None:
        """`room` says how many jobs to reserve now; `arrived` is called when some came.

        The transports are for reserving and for settling.
        """
        self.alias = alias
        # Only builds commands.
        self._client = client
        self.worker = worker
        self.reserver = reserver
        self.exclude = tuple(exclude)
        self.reserving, self.settling = transports
        self.room = room
        self.arrived = arrived
        #: Jobs that no child has yet, the next one first.
        self.ready: deque[Held] = deque()
        #: All jobs that are held, by token.
        self.held: dict[str, Held] = {}
        #: Outcomes that the server does not know yet.
        self.outcomes: deque[Outcome] = deque()
        # Number of outcomes that are on their way.
        self._sent = 0
        #: Runs whose signals another process is to send.
        self.reports: list[CrashReport] = []
        #: The number of jobs that the present call asks for.
        self.asked = 0
        #: When this call was made, and when one last brought jobs (monotonic).
        self.asked_at = self.reserved_at = 0.0
        #: True if the queues were empty when they were last asked, and nothing was put since.
        self.is_empty = False
        #: True once it may reserve jobs.
        self.has_begun = False
        #: True while it waits for jobs.
        self.is_waiting = False
        #: When the server last answered (monotonic); 0.0: it never did.
        self.last_answer = 0.0
        #: Set when there may be something to reserve or to settle.
        self.changed = asyncio.Event()
        #: Set to end a wait.
        self.interrupted = asyncio.Event()
        self._must_settle = asyncio.Event()
        self._oldest = 0.0
        self._known = KnownQueues()
        self._clock = ServerClock()
        self._mean_bytes = 0.0
        #: Seconds that a call took of late.
        self.latency = 0.0
        self._returned: list[Reserved] = []
        self._failures = 0
        #: Other sources that share the children: so it may only wait for jobs, and must
        #: ask for room before it reserves them.
        self.others: Sequence[Source] = ()
        #: True if the worker ends when the queues are empty.
        self.burst = False

    @property
    def most(self) -> int:
        """The most jobs of one call: what BYTES hold."""
        if not self._mean_bytes:
            return FEW
        return max(1, min(MOST_JOBS, int(BYTES / self._mean_bytes)))

    @property
    def is_settled(self) -> bool:
        """True if no jobs are held and the server knows all outcomes."""
        return not (self.held or self.outcomes or self._sent)

    @property
    def is_done(self) -> bool:
        """True if it is settled, and no call is under way that may bring jobs soon."""
        return self.is_settled and (not self.asked or self._failures > 0)

    @property
    def claimed(self) -> int:
        """Number of jobs that the present call may bring, if it has not taken long.

        A server that hangs must not keep room from the others.
        """
        return self.asked if time.monotonic() - self.asked_at < CLAIM else 0

    @property
    def may_reserve(self) -> bool:
        """True if it could reserve jobs now, as far as is known."""
        return self.has_begun and not (self.is_waiting or self.asked or self._failures)

    # Jobs and their ends.

    def end(
        self, settlement: Settlement, job: Reserved, *, has_died: bool = False
    ) -> None:
        """Report how a job has ended, as soon as it can be."""
        if not self.outcomes:
            self._oldest = time.monotonic()
        self.outcomes.append(Outcome(settlement, job, has_died))
        if self.is_waiting:
            self._must_settle.set()
        else:
            self.changed.set()

    def hand_back(self, held: Held) -> None:
        """Return a job that was not run to its queue."""
        job = held.job
        del self.held[job.token]
        self._returned.append(job)
        self.end(Settlement(job.jid, job.token, "release", (0,)), job)

    def hand_back_ready(self, before: float = float("inf")) -> int:
        """Return the jobs that no child has, or those held since before then; count them."""
        count = 0
        while self.ready and self.ready[0].since < before:
            self.hand_back(self.ready.popleft())
            count += 1
        return count

    def interrupt(self) -> None:
        """End a wait: what it would reserve is no longer wanted."""
        self.interrupted.set()
        self.changed.set()

    # The tasks.

    async def reserve(self) -> None:
        """Reserve and settle, for ever."""
        self.has_begun = True
        while True:
            self.changed.clear()
            count = self.room(self)
            if count > 0 or len(self.outcomes) >= MOST_OUTCOMES or self._is_overdue:
                pause = 0.0
                try:
                    await self._reserve(count)
                    self._note_success()
                except QlessError as error:
                    pause = self._note_failure(error)
                finally:
                    self.asked = 0
                await asyncio.sleep(pause)
            elif self.outcomes:
                rest = self._oldest + COMPANY - time.monotonic()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(rest, 0.001)):
                        await self.changed.wait()
            else:
                await self.changed.wait()

    async def settle(self) -> None:
        """Settle what ends while the other task waits for jobs, for ever."""
        while True:
            await self._must_settle.wait()
            self._must_settle.clear()
            while self.outcomes and self.is_waiting:
                try:
                    await self._call(self.settling, (), 0)
                    self._note_success()
                    if self.burst and self.is_settled:
                        # It has to ask again whether the queues are empty.
                        self.interrupt()
                except QlessError as error:
                    await asyncio.sleep(self._note_failure(error))

    async def finish(self) -> None:
        """Settle what is left; the caller limits the time."""
        while self.outcomes:
            try:
                await self._call(self.reserving, (), 0)
            except QlessError as error:
                await asyncio.sleep(self._note_failure(error))

    @property
    def _is_overdue(self) -> bool:
        return bool(self.outcomes) and time.monotonic() >= self._oldest + COMPANY

    async def _reserve(self, count: int) -> None:
        self.asked, self.asked_at = count, time.monotonic()
        order = await self._order() if count else ()
        settled = await self._call(self.reserving, order, count)
        if not count or settled is None or settled.jobs:
            return
        self.is_empty = True
        self.asked = 0
        for other in self.others:
            other.changed.set()
        if settled.wait_seconds:
            await self._wait(order, count, settled)

    async def _order(self) -> tuple[str, ...]:
        """Return the queues to ask, in their order."""
        if self._returned:
            returned, self._returned = self._returned, []
            self.reserver.returned(returned)
        max_age = self.reserver.max_age
        if max_age is not None and self._known.is_stale(max_age):
            survey = Client.survey.build(self._client, self.reserver.surveyed)
            began = time.monotonic()
            found = await self.reserving.call(
                cast("Command[list[QueueSurvey]]", survey)
            )
            self._known.update(found, began)
        return self.reserver.order(self._known)

    async def _call(
        self, transport: Transport, order: tuple[str, ...], count: int
    ) -> Settled | None:
        """Settle and reserve in one call; return its answer, None if it has to be repeated.

        Outcomes that the server does not take are kept. Raises QlessError.
        """
        outcomes = self._take_outcomes()
        if outcomes:
            self.is_empty = False
        self._sent += len(outcomes)
        settlements = [outcome.settlement for outcome in outcomes]
        try:
            command = self._command(order, settlements, count)
            final = await self._final(transport, outcomes)
            sent, began = boottime(), time.monotonic()
            settled = await transport.call_for_certain(command, self._note_failure)
            self.latency = min(AHEAD_MOST, time.monotonic() - began)
        except BaseException as error:
            if is_about_the_call(error) and outcomes:
                await self._settle_singly(transport, outcomes)
                return None
            self.outcomes.extendleft(reversed(outcomes))
            raise
        finally:
            self._sent -= len(outcomes)
        if is_enabled(CALLS):
            counts = {"settled": len(outcomes), "reserved": len(settled.jobs)}
            log_event(CALLS, "call", **counts, seconds=time.monotonic() - began)
        self._note_settled(outcomes, settled, final)
        if count:
            self._accept(order, settled, sent, waited=False)
        return settled

    async def _wait(self, order: tuple[str, ...], count: int, known: Settled) -> None:
        """Block until there may be jobs, and reserve them in the same round trip."""
        self.interrupted.clear()
        self.is_waiting = True
        if self.outcomes:
            self._must_settle.set()
        if self.others:
            count = 0
        self.asked = count
        sent = boottime()
        try:
            settled = await self.reserving.wait_then(
                known.wait_keys,
                known.wait_seconds or WAIT,
                self._command(order, (), count),
                interrupted=self.interrupted,
                replacement=lambda: self._command((), (), 0),
                failed=self._note_failure,
            )
        finally:
            self.is_waiting = False
        if self.reserving.wait_refusal is not None:
            raise self.reserving.wait_refusal
        if count:
            self._accept(order, settled, sent, waited=True)

    def _command(
        self, order: Sequence[str], outcomes: Sequence[Settlement], count: int
    ) -> Command[Settled]:
        request = Client.settle.build(
            self._client,
            self.worker,
            outcomes,
            count=count,
            queues=order,
            exclude=self.exclude if count else (),
            wait=WAIT if count else None,
            exhausted=count > 0,
        )
        return single(request)

    def _take_outcomes(self) -> list[Outcome]:
        """Remove and return outcomes of different jobs, the oldest first.

        A job that was lost and reserved again may have two, but the server's refusal of
        one of them names the job only.
        """
        taken: list[Outcome] = []
        jids: set[str] = set()
        while self.outcomes and len(taken) < MOST_OUTCOMES:
            if self.outcomes[0].job.jid in jids:
                break
            taken.append(self.outcomes.popleft())
            jids.add(taken[-1].job.jid)
        self._oldest = time.monotonic()
        return taken

    async def _settle_singly(
        self, transport: Transport, outcomes: list[Outcome]
    ) -> None:
        """Settle one by one, as one of them spoils the call for all."""
        for at, outcome in enumerate(outcomes):
            try:
                command = self._command((), [outcome.settlement], 0)
                final = await self._final(transport, [outcome])
                settled = await transport.call_for_certain(command, self._note_failure)
            except BaseException as error:
                if not is_about_the_call(error):
                    self.outcomes.extendleft(reversed(outcomes[at:]))
                    raise
                self._refused(outcome, type(error).__name__, str(error))
            else:
                self._note_settled([outcome], settled, final)

    async def _final(self, transport: Transport, outcomes: list[Outcome]) -> set[str]:
        """Return the tokens of those runs whose process died that are the last of their jobs.

        The others have said it themselves. To be asked before they are settled.
        """
        found = set[str]()
        for settlement, job, has_died in outcomes:
            if not has_died or settlement.verb == "release":
                continue
            is_final = is_final_failure(job, settlement)
            if settlement.verb == "crash":
                get = Client.get.build(self._client, job.jid)
                known = await transport.call(cast("Command[Job | None]", get))
                limit = int(settlement.args[0])
                is_final = known is not None and known.crashes + 1 > limit
            if is_final:
                found.add(job.token)
        return found

    # Answers.

    def _accept(
        self, order: tuple[str, ...], settled: Settled, sent: float, *, waited: bool
    ) -> None:
        """Hold the jobs that a call has brought, which was `sent` then (boottime)."""
        self.last_answer = time.monotonic()
        for lost in settled.exhausted:
            log_job_event(logging.ERROR, "failed", lost.job, group=lost.group)
            failure = lost.group, lost.message
            self.reports.append(CrashReport("failed", lost.job, *failure))
        jobs = settled.jobs
        self.reserver.taken(order, jobs)
        if not jobs:
            return
        self.is_empty = False
        self.reserved_at = time.monotonic()
        until, length = self._clock.term(settled, sent, waited=waited)
        now = time.monotonic()
        for job in jobs:
            held = Held(job, self, now, until, length)
            self.held[job.token] = held
            self.ready.append(held)
        mean = sum(len(job.data) for job in jobs) / len(jobs)
        self._mean_bytes = max(mean, 0.9 * self._mean_bytes, 1.0)
        self.asked = 0
        self.arrived()

    def _note_settled(
        self, outcomes: list[Outcome], settled: Settled, final: set[str]
    ) -> None:
        """Note what the server made of these outcomes."""
        self.last_answer = time.monotonic()
        refused = {each.jid: each for each in settled.refused}
        for outcome in outcomes if refused or self._has_died(outcomes) else ():
            settlement, job, has_died = outcome
            if refusal := refused.get(job.jid):
                self._refused(outcome, refusal.code, refusal.text)
            elif has_died and settlement.verb != "release":
                is_final = job.token in final
                self.reports.append(failure_of(settlement, job, is_final=is_final))

    def _has_died(self, outcomes: list[Outcome]) -> bool:
        return any(outcome.has_died for outcome in outcomes)

    def _refused(self, outcome: Outcome, code: str, text: str) -> None:
        """Log a refused outcome; if the job is still held, it fails instead."""
        settlement, job, has_died = outcome
        verb = settlement.verb
        level = logging.DEBUG if verb == "release" else logging.WARNING
        log_job_event(level, "refused", job, verb=verb, why=code, text=text)
        if code in GONE:
            if verb != "release":
                self.reports.append(CrashReport("lost", job))
        elif settlement.args[:1] != (failure_report.REFUSED,):
            args = failure_report.refusal(verb, text)
            self.end(
                settlement._replace(verb="fail", args=args), job, has_died=has_died
            )

    # Errors.

    def _note_failure(self, error: QlessError) -> float:
        """Log the first of a series of errors; return the seconds before the next try."""
        if not self._failures:
            log_event(logging.WARNING, "call failed", alias=self.alias, error=error)
        self._failures += 1
        return min(FIRST_PAUSE * 2.0 ** min(self._failures, 9), LONGEST_PAUSE)

    def _note_success(self) -> None:
        if self._failures:
            log_event(logging.INFO, "recovered", alias=self.alias)
            self._failures = 0


def is_about_the_call(error: BaseException) -> bool:
    """Return whether the server or its client rejects the call's content.

    It would do so again, unlike after trouble with the server or with the connection.
    """
    return isinstance(error, QlessError) and not isinstance(error, ServerError)
