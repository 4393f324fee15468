"""What enqueueing does while the server is away: the setting ON_OUTAGE of the alias.

raise     it raises (the default)
buffer    it goes into the outbox, also outside of transactions
inline    the job runs here and now, and the log says so
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
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
from django_qless.exceptions import CannotRunInline
from django_qless.outbox import backlog, entries
from django_qless.outbox.delivery import Delivery, forget
from django_qless.outbox.tables import usual_database
from django_qless.worker import failure_report

if TYPE_CHECKING:
    from django_qless.enqueue.dispatchable import Dispatchable
    from django_qless.enqueue.request import EnqueueRequest

logger = logging.getLogger("django_qless")

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

#: Runs one job in this thread; raises what it raises. `apps` sets it: jobs are run by what
#: lies above this.
run_inline: Callable[[EnqueueRequest], Any] | None = None


def guarded(dispatchable: Dispatchable) -> Any:
    """Return what sends it as ON_OUTAGE of its alias says."""
    policy = conf.alias(dispatchable.alias).on_outage
    if policy == "raise":
        raising.add(dispatchable.alias)
    if policy == "raise" or dispatchable.needs_server:
        return dispatchable
    return Buffered(dispatchable) if policy == "buffer" else Inline(dispatchable)


class _Guarded:
    """Base of what takes the place of something to send."""

    def __init__(self, dispatchable: Dispatchable) -> None:
        self._dispatchable = dispatchable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatchable, name)


class Buffered(_Guarded):
    """Goes to the server or, while that is away, into the outbox."""

    def __init__(self, dispatchable: Dispatchable) -> None:
        super().__init__(dispatchable)
        self._database = usual_database()
        self._delivery = Delivery(uuid4().hex, dispatchable.alias)

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


class Inline(_Guarded):
    """Goes to the server or, while that is away, runs here and now."""

    def send(self) -> None:
        """Send it, or run it. Raises CannotRunInline, and what the job raises."""
        try:
            self._dispatchable.send()
        except OUTAGES as error:
            self._run(error)

    async def asend(self) -> None:
        """Send it, or run it in the thread of `sync_to_async`."""
        try:
            await self._dispatchable.asend()
        except OUTAGES as error:
            await sync_to_async(self._run)(error)

    def send_on_commit(self) -> None:
        """Send it on commit, or run it; what a job raises is logged, not raised.

        Raises CannotRunInline.
        """
        try:
            self._dispatchable.send_on_commit()
        except OUTAGES as error:
            for request in self._requests(error):
                try:
                    _run_request(request, error)
                except Exception as raised:  # noqa: BLE001  it is logged
                    _log_failure(request, raised)

    def _run(self, error: QlessError) -> None:
        for request in self._requests(error):
            _run_request(request, error)

    def _requests(self, error: QlessError) -> Sequence[EnqueueRequest]:
        """Return the jobs to run. Raises CannotRunInline if one cannot run here."""
        requests = getattr(self._dispatchable, "requests", ())
        reason = "" if requests else "it is not a job that could run alone"
        for request in requests:
            reason = reason or why_not_inline(request)
        if reason:
            raise CannotRunInline(f"{self._dispatchable.title}: {reason}") from error
        return requests


def _run_request(request: EnqueueRequest, error: QlessError) -> None:
    """Run a job here and now. Raises what it raises."""
    assert run_inline is not None
    handle = request.handle
    logger.warning(
        "the server is away: the job runs inline: name=%s jid=%s error=%s",
        *(handle.name, handle.jid, error),
    )
    handle.pending = handle.created = False
    run_inline(request)


def _log_failure(request: EnqueueRequest, error: Exception) -> None:
    """Log what a job raised that ran on commit."""
    words = "a job that ran inline on commit has failed"
    if request.plan.job_type.options.sensitive:
        # As text: frames hold the arguments, and Sentry shows variables.
        logger.error("%s\n%s", words, failure_report.message_of(error))
    else:
        logger.error(words, exc_info=error)


def why_not_inline(request: EnqueueRequest) -> str:
    """Return what a job has that only the server can do; "" if it can run here."""
    put = request.put()
    wants = {
        "it is to run later (delay, run_at)": put.delay > 0 or put.at is not None,
        "it waits for other jobs (after)": bool(put.depends) or put.open,
        "it is unique": put.unique is not None,
        "it is part of a workflow": put.workflow is not None,
        "it runs in order": put.ordered,
        "it is detached": request.plan.job_type.options.detached,
    }
    return next((reason for reason, wanted in wants.items() if wanted), "")


conf.on_change(raising.clear)
