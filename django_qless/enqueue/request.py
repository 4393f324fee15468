"""Requests to enqueue jobs, and batches of them: what `.delay()` sends."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django_qless.conf.connections import connections
from django_qless.core import Client, Put, QlessError
from django_qless.core.exceptions import REFUSALS
from django_qless.core.put import row
from django_qless.core.replication import LateReplicas
from django_qless.core.request import Command, Steps, drive
from django_qless.enqueue.dependencies import NO_DEPENDENCIES, Dependencies
from django_qless.enqueue.dispatchable import Dispatchable
from django_qless.enqueue.limit_keys import NO_KEYS, LimitKeys
from django_qless.enqueue.puts import put_of
from django_qless.job_types.current import running
from django_qless.job_types.redaction import data_for_log
from django_qless.outbox.delivery import parts_of, through
from django_qless.serialization.envelope import ONLY_DEFAULT
from django_qless.signals import job_enqueued

if TYPE_CHECKING:
    from django_qless.core import PutMany
    from django_qless.enqueue.plan import EnqueuePlan
    from django_qless.job_types.handle import JobHandle
    from django_qless.job_types.options import Options
    from django_qless.job_types.registry import JobType
    from django_qless.outbox.delivery import Delivery

logger = logging.getLogger("django_qless")

#: Refusals of one job: the others of the transaction are not to blame.
REFUSED_ALONE = REFUSALS


class CallArguments(NamedTuple):
    """The arguments of one job, for `enqueue_many`: what `.args()` returns."""

    job_type: JobType
    data: str
    options: Options | None
    """The options of the `using()` that it was made with, if there was one."""
    key: str = ""
    """The unique key, by the option `unique`."""
    databases: tuple[str, ...] = ONLY_DEFAULT
    """The databases of its rows."""
    conflict: str = ""
    """The word for another job with the key, if not what the options say."""
    limit_keys: LimitKeys = NO_KEYS
    """Its keys, by the options `concurrency_key` and `fair_by`."""
    dependencies: Dependencies = NO_DEPENDENCIES
    """The jobs to enqueue before it, because the option `after` names them."""


class EnqueueRequest(NamedTuple):
    """One job to enqueue."""

    plan: EnqueuePlan
    handle: JobHandle[Any]
    context: str | None = None
    """The context that travels beside the arguments, as JSON."""
    key: str = ""
    """The unique key, "" for none."""
    after: tuple[JobHandle[Any], ...] = ()
    """Its dependencies, beside those of the plan."""
    conflict: str = ""
    """The word for another job with the key, if not what the plan says."""
    limit_keys: LimitKeys = NO_KEYS
    """Its keys, by the options `concurrency_key` and `fair_by`."""
    optional: bool = False
    """True to enqueue it only if another job of the same call depends on it."""

    def put(self) -> Put:
        """Return the job as a Put, as of now."""
        return put_of(self)

    def call(self, worker: str) -> Command[str | None]:
        """Return the call that enqueues the job."""
        return Command("put", (worker, *row(self.put())), "write")

    @property
    def is_news(self) -> bool:
        """True if it has made a job, or changed the one that stands for it."""
        return bool(self.handle.created) or (self.plan.replaces and not self.optional)

    def mark_enqueued(self, jid: str) -> None:
        """Note that the job is enqueued, or that job `jid` stands for it."""
        handle = self.handle
        handle.pending = False
        handle.created = jid == handle.jid
        handle.jid = jid
        if self.after:
            # Other jobs may stand for its dependencies.
            handle.waits_for(self.plan.depends_of(self) if handle.created else ())

    def mark_not_enqueued(self) -> None:
        """Note that the job was refused, or left out."""
        self.handle.pending = self.handle.created = False


@dataclass(slots=True, eq=False)
class EnqueueBatch(Dispatchable):
    """Jobs of one alias that are enqueued together, a thousand in each call."""

    requests: Sequence[EnqueueRequest]
    """At least one."""
    through: Delivery | None = None
    """The delivery that its calls are, if it comes out of an outbox."""

    #: Whether a single job may be put alone, by one call.
    puts_alone: ClassVar[bool] = True

    @property
    def outbox(self) -> bool:
        """True if it waits for a commit in the outbox."""
        return self.requests[0].plan.outbox

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        return self.requests[0].handle.alias

    @property
    def handles(self) -> list[JobHandle[Any]]:
        """The handles of the jobs."""
        return [request.handle for request in self.requests]

    def puts(self) -> list[Put]:
        """Return the jobs as Puts, as of now."""
        return [request.put() for request in self.requests]

    def send(self) -> None:
        """Enqueue the jobs. Raises what the server refuses."""
        request = self.requests[0]
        handle = request.handle
        client = connections.clients[handle.alias]
        is_single = self.puts_alone and len(self.requests) == 1 and not request.after
        if is_single and not (self.through or client.replication):
            # The usual case, without the machinery: one call.
            jid = client.run(request.call(running_worker())) or handle.jid
            handle.pending, handle.created, handle.jid = False, jid == handle.jid, jid
            if job_enqueued.receivers:
                drive(self.announcing(job_enqueued.send))
        else:
            drive(self._sending(client, job_enqueued.send))

    def _sending(self, client: Any, announce: Callable[..., Any]) -> Steps[None]:
        """Enqueue the jobs; then raise NotReplicated if replicas were late."""
        client = through(self.through, client)
        late = LateReplicas(client) if client.replication else None
        yield from self._steps(late or client)
        if job_enqueued.receivers:
            yield from self.announcing(announce)
        if late:
            late.check(self.handles)

    def send_on_commit(self) -> None:
        """Enqueue the jobs on commit. What is refused there is logged, not raised.

        The caller of `.delay()` can no longer handle it, and the transaction's other
        jobs must not suffer.
        """
        try:
            self.send()
        except REFUSED_ALONE as error:
            # Of a group only the last is certain to be meant; the optional ones before it
            # exist already if an earlier call enqueued them.
            groups = [
                [request for request in group if request.handle.pending]
                for group in self._groups()
                if group[-1].handle.pending
            ]
            if not groups:
                raise  # All are enqueued: something else, a receiver say, raised this.
            if len(groups) > 1:
                for group in groups:
                    part = self.part(group)
                    if self.through is not None:
                        part.through = self.through.part(group[-1].handle.jid)
                    part.send_on_commit()
                return
            *optional, request = groups[0]
            for each in optional:
                each.mark_not_enqueued()
            handle = request.handle
            request.mark_not_enqueued()
            # Nothing else is left of it.
            logger.error(
                "%s %s was not enqueued on commit: %s; its data: %s",
                *(handle.name, handle.jid, error),
                data_for_log(handle.name, handle.data),
            )

    def mark_enqueued(
        self, duplicates: Mapping[str, str] | None = None, skipped: Collection[str] = ()
    ) -> None:
        """Note that the jobs are enqueued.

        `duplicates` maps the jids of those for which other jobs stand to the jids of
        these; `skipped` has the jids of those that were left out or left alone.
        """
        if (
            not duplicates
            and not skipped
            and not any(map(attrgetter("after"), self.requests))
        ):
            # The usual case: ten thousand at a time.
            for request in self.requests:
                request.handle.pending, request.handle.created = False, True
            return
        for request in self.requests:
            jid = request.handle.jid
            request.mark_enqueued(duplicates.get(jid, jid) if duplicates else jid)
            if jid in skipped:
                request.handle.created = False

    def part(self, requests: Sequence[EnqueueRequest]) -> EnqueueBatch:
        """Return a batch of some of the jobs, to enqueue as all of them are."""
        return EnqueueBatch(requests)

    def announcing(self, send: Callable[..., Any]) -> Steps[None]:
        """Announce the jobs that are news, by the signal."""
        for request in self.requests:
            if request.is_news:
                yield send(request.plan.job_type, handle=request.handle)

    def _steps(self, client: Any) -> Steps[None]:
        """Enqueue the jobs."""
        if len(self.requests) == 1:
            yield from self._one(client, self.requests[0])
        else:
            yield from self._many(client)

    @property
    def title(self) -> str:
        """What it is, for people: "shop.jobs.send, 3 × shop.jobs.report"."""
        names = Counter(handle.name for handle in self.handles)
        words = (name if n == 1 else f"{n} × {name}" for name, n in names.items())
        return ", ".join(words)

    def commands(self) -> Iterator[Command[Any]]:
        """Yield the calls that enqueue the jobs, in their order."""
        worker = running_worker()
        if len(self.requests) == 1:
            yield self.requests[0].call(worker)
        else:
            yield from parts_of(Client.put_many.build(None, worker, self.puts()))

    def _one(self, client: Any, request: EnqueueRequest) -> Steps[None]:
        call = request.call(running_worker())
        request.mark_enqueued((yield client.run(call)) or request.handle.jid)

    def _many(self, client: Any) -> Steps[None]:
        calls = Client.put_many.build(None, running_worker(), self.puts())
        yield from self._marking(client, calls)

    def _marking(self, client: Any, calls: Any) -> Steps[None]:
        """Send the parts of a call for all the jobs; mark those enqueued by each."""
        done = 0
        for part, size in zip(calls.parts, calls.sizes, strict=True):
            try:
                reply = yield client.run(part)
            except QlessError as error:
                error.done = done
                raise
            told: PutMany = calls.combine([reply])
            some = EnqueueBatch(self.requests[done : done + size])
            some.mark_enqueued(told.duplicates, frozenset(told.skipped))
            done += size

    def _groups(self) -> list[list[EnqueueRequest]]:
        """Return the jobs, each with the optional ones enqueued for its sake."""
        groups: list[list[EnqueueRequest]] = [[]]
        for request in self.requests:
            groups[-1].append(request)
            if not request.optional:
                groups.append([])
        return [group for group in groups if group]


def running_worker() -> str:
    """Return the name of the worker whose job runs here, "" outside of any job."""
    job = running.get()
    return job.worker if job else ""
