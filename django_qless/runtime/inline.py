"""Running a job in the process that enqueues it, while the server is away."""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django_qless.conf.connections import connections
from django_qless.core import Reserved
from django_qless.core.arguments import to_json
from django_qless.job_types.current import CurrentJob
from django_qless.runtime.environment import DjangoEnvironment

if TYPE_CHECKING:
    from django_qless.enqueue.request import EnqueueRequest


def run(request: EnqueueRequest) -> Any:
    """Run a job as a worker would, once: with its arguments as JSON, its context, its
    middleware and its timeout. Returns what it returns, raises what it raises.

    What it asks the server for (progress, log, spawn) fails, for that is away.
    """
    put, plan = request.put(), request.plan
    environment = _environment(plan.alias)
    reserved = Reserved(
        jid=put.jid,
        queue=put.queue,
        klass=put.klass,
        data=put.data,
        token="",
        retries=put.retries or 0,
        remaining=put.retries or 0,
        priority=put.priority or 0,
        tags=to_json(list(put.tags or ())),
        context=put.context or "",
        expires=0.0,
    )
    reserved = environment.opened(reserved)
    client = connections[plan.alias]
    current = CurrentJob(
        reserved, client, f"inline@{socket.gethostname()}", runtime=environment
    )
    return environment.run(plan.job_type, reserved, current)


@lru_cache(maxsize=100)
def _environment(alias: str) -> DjangoEnvironment:
    return DjangoEnvironment(alias)
