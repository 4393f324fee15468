"""Spawning by a running job, and the results of its dependencies."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.conf.sealing import open_text
from django_qless.core import Client
from django_qless.core.request import Steps, adrive, drive
from django_qless.enqueue import claims, dispatch
from django_qless.enqueue.placement import stand_ins, within
from django_qless.enqueue.plan import EnqueuePlan, declared_plan
from django_qless.enqueue.request import CallArguments, EnqueueBatch, EnqueueRequest
from django_qless.exceptions import InvalidOption, ResultGone
from django_qless.job_types.current import NO_DEFAULT
from django_qless.job_types.handle import why_gone
from django_qless.serialization.json_values import revive, to_json

if TYPE_CHECKING:
    from django_qless.core import Put
    from django_qless.job_types.current import CurrentJob
    from django_qless.job_types.handle import JobHandle


class SpawnedBatch(EnqueueBatch):
    """Jobs that a running job spawns; its dependents wait for them, too.

    Those whose queues are in other namespaces have records in that of the running job,
    which stand for them, as jobs of a workflow have. So their handles are there.
    """

    __slots__ = ("current", "targets")

    needs_server = True
    puts_alone = False

    @property
    def outbox(self) -> bool:
        """False: they need the lock of the job, which runs again if it dies."""
        return False

    def __init__(
        self,
        requests: Sequence[EnqueueRequest],
        current: CurrentJob,
        targets: Mapping[str, str],
    ) -> None:
        """`targets` are the namespaces of jobs that are to run in others, by jid."""
        super().__init__(requests)
        self.current, self.targets = current, targets

    def part(self, requests: Sequence[EnqueueRequest]) -> SpawnedBatch:
        """Return a batch of some of the jobs, to enqueue as all of them are."""
        return SpawnedBatch(requests, self.current, self.targets)

    def puts(self) -> list[Put]:
        """Return the jobs as Puts, as of now."""
        puts = super().puts()
        if not self.targets:
            return puts
        return list(map(self._bound, self.requests, puts))

    def _bound(self, request: EnqueueRequest, put: Put) -> Put:
        """Return the Put of a job as the namespace of the running job takes it."""
        home, target = self.alias, self.targets.get(put.jid)
        if target is None:
            return put
        return put._replace(
            bound=to_json({"home": home, "namespace": target}),
            stand_ins=stand_ins(home, request.plan.after, put.queue),
        )

    def apart(self) -> list[EnqueueBatch]:
        """Return the jobs as ordinary ones, in a batch for each namespace."""
        found: dict[str, list[EnqueueRequest]] = {}
        for request in self.requests:
            handle = request.handle
            handle.alias = self.targets.get(handle.jid, handle.alias)
            found.setdefault(handle.alias, []).append(request)
        return list(map(EnqueueBatch, found.values()))

    def _steps(self, client: Any) -> Steps[None]:
        job, worker = self.current.reserved, self.current.worker
        arguments = (job.jid, job.token, worker, self.puts())
        yield from self._marking(client, Client.spawn.build(None, *arguments))


def spawn(
    alias: str, current: CurrentJob, jobs: Iterable[CallArguments]
) -> list[JobHandle[Any]]:
    """Enqueue jobs for a running job of this alias; return their handles."""
    batch, transactions = _batch(alias, current, jobs)
    if batch is None:
        return []
    dispatch.send(batch, transactions)
    return _handles(batch)


async def aspawn(
    alias: str, current: CurrentJob, jobs: Iterable[CallArguments]
) -> list[JobHandle[Any]]:
    """Asynchronous version of `spawn`."""
    batch, transactions = _batch(alias, current, jobs)
    if batch is None:
        return []
    await dispatch.asend(batch, transactions)
    return _handles(batch)


def dependency_results(alias: str, jid: str, default: Any) -> dict[str, Any]:
    """Return the results of a job's dependencies, by jid."""
    return _read(*drive(_results(connections[alias], jid, default)), default)


async def adependency_results(alias: str, jid: str, default: Any) -> dict[str, Any]:
    """Asynchronous version of `dependency_results`."""
    found = await adrive(_results(connections.aclient(alias), jid, default))
    # Rows may be among them, and are loaded.
    return await sync_to_async(_read)(*found, default)


def _results(
    client: Any, jid: str, default: Any
) -> Steps[tuple[dict[str, str | None], set[str]]]:
    """Return what each dependency of a job returned, as JSON, and which results are gone.

    Raises ResultGone if some are and there is no default.
    """
    jids = yield client.needs(jid)
    texts = yield client.results_text(jids)
    gone = yield client.results_cut(jids)
    if gone and default is NO_DEFAULT:
        more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
        job = yield client.get(gone[0])
        raise ResultGone(
            f"This job depends on job {gone[0]}{more}, and what that returned is gone: "
            f"{why_gone(job and job.returned)}. dependency_results(default=…) says what to "
            "take for it"
        )
    return dict(zip(jids, texts, strict=True)), set(gone)


def _read(
    texts: Mapping[str, str | None], gone: Collection[str], default: Any
) -> dict[str, Any]:
    found = {
        jid: json.loads(open_text(text))
        for jid, text in texts.items()
        if text is not None
    }
    # All at once: rows are loaded with one query for each model.
    values = dict(zip(found, revive(list(found.values())), strict=True))
    return {
        jid: values.get(jid, default) for jid in texts if jid in values or jid in gone
    }


def _batch(
    alias: str, current: CurrentJob, jobs: Iterable[CallArguments]
) -> tuple[SpawnedBatch | None, Sequence[str]]:
    given = list(jobs)
    for each in given:
        _check_suits(alias, current.queue, each)
    requests: list[EnqueueRequest] = []
    transactions: dict[str, None] = {}
    for (job_type, options), run in groupby(given, attrgetter("job_type", "options")):
        bound = within(options or job_type.options, alias)
        plan = (
            declared_plan(job_type)
            if bound is job_type.options
            else EnqueuePlan(job_type, bound)
        )
        some, names = plan.requests(list(run))
        for request in some:
            if plan.further_dependencies(request):
                raise InvalidOption(
                    f"{job_type.name}: spawn() takes jobs with at most 1,000 "
                    f"dependencies"
                )
        requests += some
        transactions.update(dict.fromkeys(names))
    if transactions:
        for request in requests:
            request.handle.pending = True
    if not requests:
        return None, []
    targets = _bind(alias, current.queue, requests)
    return SpawnedBatch(requests, current, targets), list(transactions)


def _bind(alias: str, queue: str, requests: Sequence[EnqueueRequest]) -> dict[str, str]:
    """Let the records of jobs of other namespaces be in this one; return theirs by jid."""
    targets = {}
    for request in requests:
        handle = request.handle
        if handle.alias == alias:
            continue
        if request.key:
            raise InvalidOption(
                f"{handle.name} is {routing.place(handle.alias, handle.queue)} and unique, "
                f"and a job {routing.place(alias, queue)} cannot hold its key there: spawn "
                "it with .using(unique=None).args(…), or enqueue it with .delay()"
            )
        targets[handle.jid] = handle.alias
        handle.alias = alias
    return targets


def _check_suits(alias: str, queue: str, job: object) -> None:
    if not isinstance(job, CallArguments):
        raise InvalidOption(
            f"spawn() takes what .args() returns, as spawn([fetch.args(url)]), not "
            f"{job!r}"
        )
    options = within(job.options or job.job_type.options, alias)
    if job.key:
        claims.refuse("spawn()", job.job_type, options)
    theirs = routing.namespace(options)
    if routing.alias_of(theirs) != routing.alias_of(alias):
        raise InvalidOption(
            f"{job.job_type.name} is {routing.place(theirs, options.queue)}, and a job "
            f"{routing.place(alias, queue)} can spawn only in its alias: use "
            f".using(alias={routing.alias_of(alias)!r}).args(…)"
        )


def _handles(batch: SpawnedBatch) -> list[JobHandle[Any]]:
    return [each.handle for each in batch.requests if not each.optional]
