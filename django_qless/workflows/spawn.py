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
from django_qless.enqueue import dispatch
from django_qless.enqueue.plan import EnqueuePlan, declared_plan
from django_qless.enqueue.request import CallArguments, EnqueueBatch, EnqueueRequest
from django_qless.exceptions import InvalidOption, ResultGone
from django_qless.job_types.current import NO_DEFAULT
from django_qless.job_types.handle import why_gone
from django_qless.serialization.json_values import revive

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob
    from django_qless.job_types.handle import JobHandle


class SpawnedBatch(EnqueueBatch):
    """Jobs that a running job spawns; its dependents wait for them, too."""

    __slots__ = ("current",)

    needs_server = True
    puts_alone = False

    @property
    def outbox(self) -> bool:
        """False: they need the lock of the job, which runs again if it dies."""
        return False

    def __init__(self, requests: Sequence[EnqueueRequest], current: CurrentJob) -> None:
        super().__init__(requests)
        self.current = current

    def part(self, requests: Sequence[EnqueueRequest]) -> SpawnedBatch:
        """Return a batch of some of the jobs, to enqueue as all of them are."""
        return SpawnedBatch(requests, self.current)

    def _steps(self, client: Any) -> Steps[None]:
        job, worker = self.current.reserved, self.current.worker
        arguments = (job.jid, job.token, worker, self.puts())
        yield from self._marking(client, Client.spawn.build(None, *arguments))


def spawn(
    alias: str, current: CurrentJob, jobs: Iterable[CallArguments]
) -> list[JobHandle[Any]]:
    """Enqueue jobs for a running job of this alias; return their handles."""
    batch, transaction = _batch(alias, current, jobs)
    if batch is None:
        return []
    dispatch.send(batch, transaction)
    return _handles(batch)


async def aspawn(
    alias: str, current: CurrentJob, jobs: Iterable[CallArguments]
) -> list[JobHandle[Any]]:
    """Asynchronous version of `spawn`."""
    batch, transaction = _batch(alias, current, jobs)
    if batch is None:
        return []
    await dispatch.asend(batch, transaction)
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
    gone = yield client.results_gone(jids)
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
) -> tuple[SpawnedBatch | None, str | None]:
    given = list(jobs)
    for each in given:
        _check_suits(alias, current.queue, each)
    requests: list[EnqueueRequest] = []
    transactions: set[str] = set()
    for (job_type, options), run in groupby(given, attrgetter("job_type", "options")):
        plan = EnqueuePlan(job_type, options) if options else declared_plan(job_type)
        some, transaction = plan.requests(list(run))
        requests += some
        if transaction:
            transactions.add(transaction)
    if transactions:
        for request in requests:
            request.handle.pending = True
    if not requests:
        return None, None
    found = dispatch.open_transaction("spawn()", transactions)
    return SpawnedBatch(requests, current), found


def _check_suits(alias: str, queue: str, job: object) -> None:
    if not isinstance(job, CallArguments):
        raise InvalidOption(
            f"spawn() takes what .args() returns, as spawn([fetch.args(url)]), not "
            f"{job!r}"
        )
    options = job.options or job.job_type.options
    if routing.alias_for(options) != alias:
        raise InvalidOption(
            f"{job.job_type.name} is in alias {routing.alias_for(options)!r} (queue {options.queue!r}), "
            f"and a job in alias {alias!r} (queue {queue!r}) can spawn only there: use "
            f".using(alias={alias!r}).args(…), or enqueue it with .delay()"
        )


def _handles(batch: SpawnedBatch) -> list[JobHandle[Any]]:
    return [each.handle for each in batch.requests if not each.optional]
