"""What enqueueing does while the server is away: the setting ON_OUTAGE of the alias.

raise     it raises (the default)
buffer    it goes into the outbox, also outside of transactions
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from asgiref.sync import sync_to_async

from django_qless import conf
from django_qless.core import CannotPersist, ConnectionLost, QlessError
from django_qless.core.exceptions import (
    PoolExhausted,
    ReadOnlyServer,
    ServerBusy,
    ServerFull,
)
from django_qless.outbox import backlog, entries
from django_qless.outbox.delivery import Delivery, forget
from django_qless.outbox.tables import usual_database

if TYPE_CHECKING:
    from django_qless.enqueue.dispatchable import Dispatchable

#: What an outage is: a server that is away, or takes nothing for now.
OUTAGES = (
    ConnectionLost,
    ServerBusy,
    ReadOnlyServer,
    ServerFull,
    CannotPersist,
    PoolExhausted,
)

#: Aliases that are known to raise: what is enqueued there is sent as it is.
raising: set[str] = set()


def guarded(dispatchable: Dispatchable) -> Any:
    """Return what sends it as ON_OUTAGE of its alias says."""
    policy = conf.alias(dispatchable.alias).on_outage
    if policy == "raise":
        raising.add(dispatchable.alias)
    if policy == "raise" or dispatchable.needs_server:
        return dispatchable
    return Buffered(dispatchable)


class Buffered:
    """Goes to the server or, while that is away, into the outbox."""

    def __init__(self, dispatchable: Dispatchable) -> None:
        self._dispatchable = dispatchable
        self._database = usual_database()
        self._delivery = Delivery(uuid4().hex, dispatchable.alias)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatchable, name)

    def send(self) -> None:
        """Send it, or write it into the outbox."""
        self._try(self._dispatchable.send)

    def send_on_commit(self) -> None:
        """Send it on commit, or write it into the outbox."""
        self._try(self._dispatchable.send_on_commit)

    async def asend(self) -> None:
        """Send it, or write it into the outbox, from asynchronous code."""
        if not await sync_to_async(self._may_send)():
            return
        try:
            await self._dispatchable.asend()
        except OUTAGES as error:
            await sync_to_async(self._write)(error)
        else:
            forget(self.alias, self._delivery.ids)

    def _try(self, send: Callable[[], None]) -> None:
        if not self._may_send():
            return
        try:
            send()
        except OUTAGES as error:
            self._write(error)
        else:
            forget(self.alias, self._delivery.ids)

    def _may_send(self) -> bool:
        """Return whether nothing of this process waits before it; else write it."""
        self._dispatchable.through = self._delivery
        if backlog.is_over(self._database, self.alias):
            return True
        self._write(None)
        return False

    def _write(self, error: QlessError | None) -> None:
        # Under the same ids: the server may have carried it out, and only the reply is lost.
        entries.write(self._dispatchable, self._database, self._delivery.base)
        for handle in self._dispatchable.handles:
            handle.pending = True
        if error is not None:
            backlog.begin(self._database, self.alias, error)


conf.on_change(raising.clear)
