"""Dependencies that are given as ids, and are in another namespace than the job.

The server of the job does not know them, and refuses it. Only then they are looked for: so
the usual job costs no search. What is found is a dependency as if its handle had been given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.core import JobNotFound
from django_qless.core.arguments import MOST_ITEMS
from django_qless.core.request import adrive, drive
from django_qless.exceptions import InvalidOption
from django_qless.job_types.handle import JobHandle
from django_qless.job_types.lookup import afind_job, find_job
from django_qless.signals import job_enqueued

if TYPE_CHECKING:
    from django_qless.core.request import Steps
    from django_qless.enqueue.plan import EnqueuePlan
    from django_qless.enqueue.request import EnqueueBatch, EnqueueRequest


def send_again(batch: EnqueueBatch, error: JobNotFound) -> None:
    """Enqueue what was refused of a batch, with the dependencies that are elsewhere.

    Raises the error, by which it was refused, if a dependency is nowhere, or is where its
    job cannot depend on it.
    """
    clients = connections.clients.__getitem__
    sending = methodcaller("send"), job_enqueued.send
    drive(_again(batch, error, clients, find_job, *sending))


async def asend_again(batch: EnqueueBatch, error: JobNotFound) -> None:
    """Asynchronous version of `send_again`."""
    sending = methodcaller("asend"), job_enqueued.asend
    await adrive(_again(batch, error, connections.aclient, afind_job, *sending))


def _again(
    batch: EnqueueBatch,
    error: JobNotFound,
    client_of: Callable[[str], Any],
    find: Callable[[str, str], Any],
    send: Callable[[EnqueueBatch], Any],
    announce: Callable[..., Any],
) -> Steps[None]:
    # Of more than a thousand jobs some may be enqueued already.
    done = [each for each in batch.requests if each.handle.created is not None]
    left = [each for each in batch.requests if each.handle.created is None]
    if batch.through is not None or not any(map(_may_be_elsewhere, left)):
        raise error
    own = {each.handle.jid for each in batch.requests}
    plans: dict[tuple[EnqueuePlan, str], EnqueuePlan] = {}
    for plan, name in {(each.plan, each.handle.alias) for each in left}:
        jids = [jid for jid in plan.after_jids if jid not in own]
        handles = yield from _found(jids, name, error, client_of, find)
        plans[plan, name] = _after(plan, handles)
    if all(plan is new for (plan, _), new in plans.items()):
        raise error
    left = [each._replace(plan=plans[each.plan, each.handle.alias]) for each in left]
    yield send(batch.part(left))
    if done and job_enqueued.receivers:
        yield from batch.part(done).announcing(announce)


def _may_be_elsewhere(request: EnqueueRequest) -> bool:
    return bool(request.plan.after_jids) and routing.is_routed(request.handle.alias)


def _found(
    jids: Sequence[str],
    name: str,
    error: JobNotFound,
    client_of: Callable[[str], Any],
    find: Callable[[str, str], Any],
) -> Steps[list[JobHandle[Any]]]:
    """Return handles of the jobs that are in other namespaces than `name`."""
    here: set[str] = set()
    for start in range(0, len(jids), MOST_ITEMS):
        briefs = yield client_of(name).brief(jids[start : start + MOST_ITEMS])
        here.update(each.jid for each in briefs if each.state != "canceled")
    handles: list[JobHandle[Any]] = []
    for jid in jids:
        if jid not in here:
            found = yield find(routing.alias_of(name), jid)
            if found is None or found[1].canceled is not None:
                raise error
            if found[0] != name:
                handles.append(JobHandle(*found))
    return handles


def _after(plan: EnqueuePlan, handles: Sequence[JobHandle[Any]]) -> EnqueuePlan:
    """Return a plan in which handles stand for the ids of these jobs."""
    try:
        return plan.after_handles(handles) if handles else plan
    except InvalidOption as why:
        raise JobNotFound(str(why)) from why
