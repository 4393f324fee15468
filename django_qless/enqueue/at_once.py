"""Sending several batches: a server that does not answer keeps nothing from the others."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING

from django_qless.core import NotReplicated, QlessError
from django_qless.core.replication import combined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.enqueue.dispatchable import Dispatchable

#: Batches that are sent at the same time.
MOST = 32


def send_each(some: Sequence[Dispatchable], *, on_commit: bool = False) -> None:
    """Send these at the same time. Raises when all have ended, if one has failed."""

    def send(each: Dispatchable) -> QlessError | None:
        try:
            # A thread has no running job, a context for each has.
            contexts[id(each)].run(each.send_on_commit if on_commit else each.send)
        except QlessError as error:
            return error
        return None

    contexts = {id(each): copy_context() for each in some}
    with ThreadPoolExecutor(min(len(some), MOST), "qless-enqueue") as threads:
        _raise_worst(list(threads.map(send, some)))


def send_in_turn(
    some: Sequence[Dispatchable], send: Callable[[Dispatchable], None]
) -> None:
    """Send these in this thread. Raises when all have been tried, if one has failed."""
    errors: list[QlessError] = []
    for each in some:
        try:
            send(each)
        except QlessError as error:
            errors.append(error)
    _raise_worst(errors)


async def asend_each(some: Sequence[Dispatchable]) -> None:
    """Asynchronous version of `send_each`."""
    sent = (each.asend() for each in some)
    _raise_worst(await asyncio.gather(*sent, return_exceptions=True))


def _raise_worst(errors: Sequence[BaseException | None]) -> None:
    """Raise the first error by which jobs are not enqueued, or one for all late replicas."""
    lates = []
    for error in errors:
        if isinstance(error, NotReplicated):
            lates.append(error)
        elif error is not None:
            raise error
    if lates:
        raise lates[0] if len(lates) == 1 else combined(lates)
