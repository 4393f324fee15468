"""Jobs on the tests' server that this process has not put: schedules' and other processes'."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, get_args

from django_qless import conf
from django_qless.connections import connections
from django_qless.core import Put
from django_qless.core.arguments import to_json
from django_qless.core.commands.queues import QueueState
from django_qless.handle import JobHandle
from django_qless.servers import throwaway
from django_qless.testing.captured import CapturedJob

if TYPE_CHECKING:
    from django_qless.core import Client, Job

# Looked at of each kind: as many as one call tells.
MOST = 1000
STATES: tuple[QueueState, ...] = tuple(
    state for state in get_args(QueueState) if state != "recurring"
)


def others(known: Collection[str]) -> Iterator[CapturedJob]:
    """Yield the jobs that are there and not among these jids, the first put first.

    Only on a server that this process has started: on another one may be anything.
    """
    if throwaway.running() is None:
        return
    for alias in conf.names():
        if conf.alias(alias).throwaway is None:
            continue
        client = connections[alias]
        unknown = [jid for jid in _jids(client) if jid not in known]
        for job in sorted(client.multiget(unknown), key=_put_at):
            yield _as_put(alias, job)


def _jids(client: Client) -> Iterator[str]:
    """Yield the ids of all jobs, whatever their state."""
    for counts in client.queues():
        for state in STATES:
            yield from client.jobs(state, counts.name, 0, MOST)
    yield from client.completed(0, MOST)
    for group in client.failed():
        yield from client.failed_jobs(group, 0, MOST).jids


def _put_at(job: Job) -> float:
    return float(job.history[0]["when"]) if job.history else 0.0


def _as_put(alias: str, job: Job) -> CapturedJob:
    queue = job.history[0].get("q") if job.history else ""
    put = Put(
        jid=job.jid,
        queue=queue or job.queue,
        klass=job.klass,
        data=job.data,
        priority=job.priority,
        retries=job.retries,
        tags=job.tags,
        depends=job.dependencies,
        context=to_json(job.context) if job.context else None,
    )
    return CapturedJob(alias, JobHandle(alias, job), put)
