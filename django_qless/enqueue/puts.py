"""The Puts that requests to enqueue jobs stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core import Put
from django_qless.enqueue import unique_keys
from django_qless.enqueue.limit_keys import NO_KEYS

if TYPE_CHECKING:
    from django_qless.enqueue.request import EnqueueRequest

#: Dependencies that one job may have, unless it is part of a workflow.
MOST_DEPENDENCIES = 1000


def put_of(request: EnqueueRequest) -> Put:
    """Return the Put of a job, as of now."""
    plan, handle, key = request.plan, request.handle, request.key
    shape = plan.keyed if key else plan.shape
    put = shape._replace(
        jid=handle.jid,
        data=handle.data,
        context=request.context,
        unique=key or None,
    )
    if key and plan.job_type.aliases:
        aliases = unique_keys.under_aliases(plan.job_type, key)
        put = put._replace(unique_aliases=aliases)
    if request.conflict:
        put = put._replace(conflict=request.conflict)
    if request.limit_keys is not NO_KEYS:
        limit_key, fair_by = request.limit_keys
        put = put._replace(limit_key=limit_key, fair_by=fair_by)
    if request.after or plan.has_late_dependencies:
        depends = plan.depends_of(request)
        put = put._replace(
            depends=depends, met=tuple(filter(plan.met.__contains__, depends))
        )
    if not request.optional:
        return put
    # No debouncing: another job waits for this one.
    return put._replace(optional=True, debounce=None)
