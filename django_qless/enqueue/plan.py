"""EnqueuePlan: the options of a job worked out once, then used for each enqueue."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS
from django.db import connections as django_databases

from django_qless.conf import in_tests, routing, sealing
from django_qless.core import Client, Put, new_jid
from django_qless.enqueue import context_propagation, dispatch, outage
from django_qless.enqueue.dependencies import KEEP, NO_DEPENDENCIES
from django_qless.enqueue.limit_keys import NO_KEYS, LimitKeys
from django_qless.enqueue.puts import MOST_DEPENDENCIES
from django_qless.enqueue.request import (
    CallArguments,
    EnqueueBatch,
    EnqueueRequest,
)
from django_qless.exceptions import InvalidOption, NotPut
from django_qless.job_types import discovery
from django_qless.job_types.handle import JobHandle
from django_qless.job_types.registry import JobType
from django_qless.serialization.envelope import MOST_BYTES, limited
from django_qless.serialization.json_values import to_json

if TYPE_CHECKING:
    from django_qless.job_types.options import Options

# The core's words for the end of a unique key's lifetime.
UNTIL = {"waiting": "start", "running": "end"}

ONLY_DEFAULT = {DEFAULT_DB_ALIAS}

# Data of at most this many characters are surely short enough for a job.
SHORT = MOST_BYTES // 4


class Tick(NamedTuple):
    """A tick of a schedule, and the running job that enqueues its jobs."""

    id: str
    time: float
    """When it was, in seconds of the epoch."""
    jid: str
    token: str
    client: Client
    """That of the alias where the job runs."""


class EnqueuePlan:
    """The common part of all jobs of one `JobFunction`.

    They differ in jid, data, context, unique key and dependencies of their own.
    """

    __slots__ = (
        *("_handle_shape", "_jid", "_on_commit", "_options"),
        "_travelling",
        *("after", "context", "depends", "has_late_dependencies"),
        *("job_type", "keyed", "met", "replaces", "shape"),
    )

    def __init__(self, job_type: JobType, options: Options) -> None:
        self._options = options
        self.job_type = job_type
        for other in options.after:
            self._check_dependency(other)
        #: Whether a second enqueue changes the job of the first.
        self.replaces = options.on_conflict == "replace" or bool(options.debounce)
        self._jid = options.jid
        self._on_commit = options.on_commit
        self._travelling = options.travelling(job_type.name, job_type.options)
        #: The context of the jobs, without what is captured at each enqueue.
        self.context = to_json(self._travelling) if self._travelling else None
        #: Dependencies, given as handles or as ids.
        self.after = options.after
        #: Jids that the options name as dependencies.
        self.depends = self._named_dependencies()
        #: Those of them whose handles say that they are complete.
        self.met = met_of(options.after)
        self._check_number(len(self.depends))
        #: Whether one of them is not enqueued yet, so that its jid may still change.
        self.has_late_dependencies = any(
            getattr(each, "pending", False) for each in options.after
        )
        #: What the jobs have in common, as a Put.
        known = () if self.has_late_dependencies else self.depends
        self.shape = _shape(job_type, options)._replace(
            depends=known, met=tuple(filter(self.met.__contains__, known))
        )
        #: The shape as handles know it.
        self._handle_shape = self.shape._replace(context=self.context)
        until = options.unique_for
        #: The shape of those with a unique key.
        self.keyed = self.shape._replace(
            unique_until=UNTIL[until] if isinstance(until, str) else until,
            conflict="replace" if options.debounce else options.on_conflict,
            debounce=options.debounce,
        )

    @property
    def alias(self) -> str:
        """The alias where its jobs are."""
        return routing.alias_for(self._options)

    @property
    def place(self) -> str:
        """Where its jobs are, in words."""
        return f"in alias {self.alias!r} (queue {self._options.queue!r})"

    def _check_dependency(self, handle: Any) -> None:
        """Raise InvalidOption if a job that its jobs wait for is in another alias."""
        alias = getattr(handle, "alias", self.alias)
        if alias != self.alias:
            raise InvalidOption(
                f"{self.job_type.name}: job {handle.jid} is in alias {alias!r}; a job "
                f"{self.place} cannot depend on it. {routing.REMEDY}"
            )

    def _check_number(self, number: int) -> None:
        """Raise InvalidOption if a job has too many dependencies for one call."""
        if number > MOST_DEPENDENCIES:
            raise InvalidOption(
                f"{self.job_type.name}: after= names {number:,} jobs, and a job can wait "
                f"for {MOST_DEPENDENCIES:,} at most. A workflow takes them: "
                "flow.add(job, after=handles)"
            )

    def enqueue(self, job: CallArguments) -> JobHandle[Any]:
        """Enqueue one job, at once or on commit; return its handle."""
        transaction = self.open_transaction(job.databases)
        requests = self._with_dependencies(job, pending=bool(transaction))
        if transaction or requests[-1].handle.alias not in outage.raising:
            dispatch.send(EnqueueBatch(requests), transaction)
        else:
            # At once, and without a policy for outages: the usual case.
            dispatch.dispatcher.send(EnqueueBatch(requests))
        return requests[-1].handle

    @property
    def outbox(self) -> bool:
        """True if what waits for a commit is written into the outbox."""
        return dispatch.uses_outbox(self._on_commit, self.alias)

    async def aenqueue(self, job: CallArguments) -> JobHandle[Any]:
        """Enqueue one job from asynchronous code; return its handle."""
        if self.outbox:
            # In the thread that may have the transaction.
            return await sync_to_async(self.enqueue)(job)
        transaction = self.open_transaction(job.databases)
        requests = self._with_dependencies(job, pending=bool(transaction))
        await dispatch.asend(EnqueueBatch(requests), transaction)
        return requests[-1].handle

    def enqueue_missing(
        self, tick: Tick, jobs: Iterable[tuple[str, CallArguments]]
    ) -> int:
        """Enqueue at once, under the jids given, the jobs that this tick still misses.

        Calling it again adds none, in whichever state those jobs are by then. Options that
        count from the enqueueing of a job count from the tick. Returns the number of new
        jobs, without the dependencies enqueued before them.
        """
        context = self.captured_context(self.alias)
        requests = [
            request
            for jid, job in jobs
            for request in self._with_dependencies(job, jid=jid, context=context)
        ]
        jids = {each.handle.jid for each in requests if not each.optional}
        puts = [
            each.put()._replace(absent=not each.optional, since=tick.time)
            for each in requests
        ]
        if puts:
            held = tick.jid, tick.token
            reply = tick.client.put_once(tick.id, *held, "", puts)
            jids.difference_update(reply.skipped, reply.duplicates)
        return len(jids)

    def request(
        self,
        data: str,
        key: str = "",
        after: tuple[JobHandle[Any], ...] = (),
        *,
        conflict: str = "",
        jid: str | None = None,
        pending: bool = False,
        context: str | None = None,
        limit_keys: LimitKeys = NO_KEYS,
    ) -> EnqueueRequest:
        """Return the request to enqueue one job, with a new handle.

        `context` is the captured one, if it was captured already.
        """
        alias = self.alias
        if context is None:
            context = self.captured_context(alias)
        if sealing.codec_of(alias) is not None or len(data) > SHORT:
            data = self.stored(data)
        shape = self._handle_shape
        if after:
            depends = [*(handle.jid for handle in after), *self.depends]
            shape = shape._replace(depends=depends)
        jid = jid or self._jid or new_jid()
        handle = JobHandle.of_put(alias, jid, shape, data, pending=pending)
        return EnqueueRequest(self, handle, context, key, after, conflict, limit_keys)

    def requests(
        self, jobs: Sequence[CallArguments]
    ) -> tuple[list[EnqueueRequest], str | None]:
        """Return requests for many jobs, and the database whose commit they await.

        Raises NotPut if a dependency would be enqueued only later.
        """
        if self._jid is not None and len(jobs) > 1:
            raise InvalidOption(
                f"{self.job_type.name}: jid={self._jid!r} can name one job, not "
                f"{len(jobs)}"
            )
        transaction = self.open_transaction(
            {name for job in jobs for name in job.databases}
        )
        pending, context = bool(transaction), self.captured_context(self.alias)
        if any(job.dependencies is not NO_DEPENDENCIES for job in jobs):
            return [
                request
                for job in jobs
                for request in self._with_dependencies(
                    job, pending=pending, context=context
                )
            ], transaction
        alias, shape, of_put = self.alias, self._handle_shape, JobHandle.of_put
        if sealing.codec_of(alias) is not None or any(
            len(job.data) > SHORT for job in jobs
        ):
            jobs = [job._replace(data=self.stored(job.data)) for job in jobs]
        return [
            EnqueueRequest(
                self,
                of_put(alias, self._jid or new_jid(), shape, job.data, pending=pending),
                context,
                job.key,
                (),
                job.conflict,
                job.limit_keys,
            )
            for job in jobs
        ], transaction

    def stored(self, data: str) -> str:
        """Return data as a job carries it: sealed, if that is asked for.

        Raises TooBig, UnserialisableArgument and InvalidOption.
        """
        codec = sealing.codec_of(self.alias)
        return limited(self.job_type.name, data if codec is None else codec.seal(data))

    def stored_context(self, text: str | None) -> str | None:
        """Return a context, or None, as a job carries it."""
        codec = sealing.codec_of(self.alias)
        if text is None or codec is None:
            return text
        return sealing.seal_context(text, codec)

    def depends_of(self, request: EnqueueRequest) -> tuple[str, ...]:
        """Return the jids of a job's dependencies, as of now."""
        late = self.has_late_dependencies
        if not request.after and not late:
            return self.depends
        named = self._named_dependencies() if late else self.depends
        first = [handle.jid for handle in request.after]
        return tuple(dict.fromkeys([*first, *named]))

    def _with_dependencies(
        self,
        job: CallArguments,
        *,
        jid: str | None = None,
        pending: bool = False,
        context: str | None = None,
    ) -> list[EnqueueRequest]:
        """Return the requests for a job's dependencies, and then the one for the job."""
        requests: list[EnqueueRequest] = []
        after: tuple[JobHandle[Any], ...] = ()
        if job.dependencies is not NO_DEPENDENCIES:
            for each in job.dependencies.jobs:
                plan = declared_plan(each.job_type)
                if plan.alias != self.alias:
                    raise InvalidOption(
                        f"{self.job_type.name} comes after {each.job_type.name}, which "
                        f"is {plan.place}; a job {self.place} cannot depend on it. "
                        f"{routing.REMEDY}"
                    )
                after = tuple(requests[index].handle for index in each.after)
                request = plan.request(
                    *(each.data, each.key, after),
                    pending=pending,
                    limit_keys=each.limit_keys,
                )
                requests.append(request._replace(conflict=KEEP, optional=True))
            after = tuple(requests[index].handle for index in job.dependencies.after)
            self._check_number(len(self.depends) + len(after))
        requests.append(
            self.request(
                *(job.data, job.key, after),
                conflict=job.conflict,
                jid=jid,
                pending=pending,
                context=context,
                limit_keys=job.limit_keys,
            )
        )
        return requests

    def open_transaction(self, of_rows: Collection[str]) -> str | None:
        """Return the database whose open transaction jobs on rows of these must await.

        Raises NotPut if a dependency would be enqueued only later.
        """
        if self.job_type not in discovery.warned:
            discovery.warn_if_undiscovered(self.job_type)
        if in_tests.ENVIRONMENT in sys.modules:
            # Tests may have begun since the last call: they have another dispatcher.
            in_tests.begin()
        names = {dispatch.commit_database(self._on_commit, name) for name in of_rows}
        found = None
        # No transaction, the usual case: told without a call.
        if names != ONLY_DEFAULT or django_databases[DEFAULT_DB_ALIAS].in_atomic_block:
            wanted = [name for name in names if name is not None]
            found = dispatch.open_transaction(self.job_type.name, wanted)
        if self.has_late_dependencies and not found:
            for each in self.after:
                if getattr(each, "pending", False):
                    raise NotPut(
                        f"{self.job_type.name} would be enqueued before job {each.jid}, "
                        "on which it depends and which waits for a commit: let both "
                        "wait for the same one, see on_commit="
                    )
        return found

    def captured_context(self, alias: str) -> str | None:
        """Return the context of a job that is enqueued there now, as JSON."""
        # Nothing to capture, the usual case: told without a call.
        if (
            alias in context_propagation.without_own
            and context_propagation.active_language(None) is None
            and context_propagation.active_time_zone(None) is None
        ):
            return self.context and self.stored_context(self.context)
        captured = context_propagation.capture(alias, self.job_type.name)
        if captured is None:
            return self.stored_context(self.context)
        members = {**self._travelling, context_propagation.MEMBER: captured}
        return self.stored_context(to_json(members))

    def _named_dependencies(self) -> tuple[str, ...]:
        """Return the jids that the options name as dependencies, as of now."""
        return tuple(dict.fromkeys(getattr(each, "jid", each) for each in self.after))


def met_of(after: Iterable[Any]) -> frozenset[str]:
    """Return the jids of those of these jobs whose handles say that they are complete."""
    return frozenset(
        handle.jid for handle in after if getattr(handle, "state", "") == "complete"
    )


@lru_cache(maxsize=1000)
def declared_plan(job_type: JobType) -> EnqueuePlan:
    """Return the plan of a job with the options that it is declared with."""
    return EnqueuePlan(job_type, job_type.options)


def _shape(job_type: JobType, options: Options) -> Put:
    """Return the common part of all jobs with these options."""
    expires, moment = options.expires, None
    if isinstance(expires, datetime):
        moment, expires = expires.timestamp(), None
    return Put(
        jid="",
        queue=options.queue,
        klass=job_type.name,
        data="",
        delay=options.delay,
        # A new job has 0 by default; one that is enqueued again keeps its priority.
        priority=options.priority if options.jid else options.priority or None,
        retries=options.retries,
        tags=options.tags or (() if options.jid else None),
        on_failure="" if options.on_failure == "block" else options.on_failure,
        expires=expires,
        # Times stay times: the server compares them with its own clock.
        at=options.run_at.timestamp() if options.run_at else None,
        expires_at=moment,
    )
