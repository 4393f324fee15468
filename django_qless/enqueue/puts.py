"""The Puts that requests to enqueue jobs stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from django_qless.core import Put
from django_qless.enqueue import unique_keys
from django_qless.enqueue.limit_keys import NO_KEYS

if TYPE_CHECKING:
    from django_qless.enqueue.plan import EnqueuePlan
    from django_qless.enqueue.request import EnqueueRequest

#: Dependencies that one job may have, unless it is part of a workflow.
MOST_DEPENDENCIES = 1000

UNIQUE = Put._fields.index("unique")


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


def puts_of(plan: EnqueuePlan, requests: Iterable[EnqueueRequest]) -> Iterator[Put]:
    """Yield the Puts of many jobs of one plan, as of now."""
    now, keyed = plan.shape, plan.keyed
    head, put = now[1:3], Put._make
    context, tail, key_tail = now.context, now[4:], keyed[4:]
    # Ten thousand at a time: as tuples they are made in a fifth of the time.
    for request in requests:
        if (
            request.after
            or request.optional
            or request.conflict
            or plan.job_type.aliases
            or request.limit_keys is not NO_KEYS
            or plan.has_late_dependencies
        ):
            yield put_of(request)
            continue
        if request.context != context:
            context = request.context
            tail = now._replace(context=context)[4:]
            key_tail = keyed._replace(context=context)[4:]
        handle, key = request.handle, request.key
        if not key:
            yield put((handle.jid, *head, handle.data, *tail))
        else:
            before, after = key_tail[: UNIQUE - 4], key_tail[UNIQUE - 3 :]
            yield put((handle.jid, *head, handle.data, *before, key, *after))
