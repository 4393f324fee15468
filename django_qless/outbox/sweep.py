"""Sweeping up what is left in an outbox: delivered in its order, then deleted."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import DatabaseError, transaction
from django.db import connections as databases

from django_qless.conf.connections import connections
from django_qless.core import QlessError
from django_qless.core.exceptions import REFUSALS, NotReplicated
from django_qless.job_types.redaction import data_for_log
from django_qless.outbox import calls, delivery
from django_qless.outbox.tables import Now, entries

if TYPE_CHECKING:
    from django_qless.core.request import Command
    from django_qless.outbox.models import Entry

logger = logging.getLogger("django_qless")

#: Seconds for which an entry belongs to the process that has written it.
OWN = 5.0
#: Entries that one query reads.
MOST = 200
#: Seconds after which what was read is not delivered any more: by then it may have been
#: delivered and deleted elsewhere, and the server keeps its reply for another minute.
FRESH = 20.0

MOST_LOGGED = 2000


class Swept(NamedTuple):
    """What a sweep has done."""

    #: How many entries it has delivered.
    entries: int = 0
    #: Behind which entry there may be more; None if there is none.
    last: int | None = None
    #: Why it has stopped early.
    error: Exception | None = None

    @property
    def is_locked(self) -> bool:
        """True if others deliver these entries just now."""
        return isinstance(self.error, DatabaseError)


def sweep(
    database: str,
    alias: str,
    *,
    of: str | None = None,
    after: int = 0,
    before: int | None = None,
    most: int = MOST,
) -> Swept:
    """Deliver what is left for an alias in one database's outbox, the oldest first.

    Without `of`, a process, only what does not belong to its process any more. What the
    server refuses is logged and taken out, as on commit. Raises DatabaseError.
    """
    found = entries(database).filter(alias=alias, id__gt=after).order_by("id")
    if of is None:
        found = found.filter(created__lt=Now() - timedelta(seconds=OWN))
    else:
        found = found.filter(source=of)
    if before is not None:
        found = found.filter(id__lt=before)
    features = databases[database].features
    locks = features.has_select_for_update and features.has_select_for_update_nowait
    if locks:
        # Not SKIP LOCKED: what another sweep delivers comes before what is behind it.
        found = found.select_for_update(nowait=True)
    done: list[Entry] = []
    # Without locks two may read the same entries, and the server tells them apart.
    with transaction.atomic(using=database) if locks else nullcontext():
        try:
            rows = list(found[:most])
        except DatabaseError as busy:
            if locks and _is_locked(busy):
                return Swept(error=busy)
            raise
        last, error = _deliver_all(alias, rows, done)
        if done:
            entries(database).filter(id__in=[row.pk for row in done]).delete()
    _tell(alias, [row.delivery for row in done])
    if error is not None or not rows or (last == rows[-1].pk and len(rows) < most):
        last = None
    return Swept(len(done), last, error)


def _deliver_all(
    alias: str, rows: list[Entry], done: list[Entry]
) -> tuple[int | None, Exception | None]:
    """Deliver entries in their order; return the last one, and what has stopped it."""
    client = delivery.ImpatientClient(connections[alias])
    until, last = time.monotonic() + FRESH, None
    for row in rows:
        if time.monotonic() > until:
            break
        try:
            _deliver(client, row)
        except NotReplicated:
            pass  # It is there, and stays in the outbox until replicas have it, too.
        except QlessError as error:
            return last, error
        else:
            done.append(row)
        last = row.pk
    return last, None


def _deliver(client: Any, row: Entry) -> None:
    """Deliver one entry; log what is refused."""
    call = calls.read(row.command)
    try:
        _send(client, row.delivery, call)
    except REFUSALS as error:
        singles = list(calls.single_puts(call)) if call.name == "put.many" else []
        if len(singles) < 2:
            _log_refusal(row, call, error)
            return
        base = row.delivery.rpartition("/")[0]
        for jid, single in singles:
            try:
                _send(client, f"{delivery.part_of(base, jid)}/0", single)
            except REFUSALS as refusal:
                _log_refusal(row, single, refusal)


def _send(client: Any, number: str, call: Command[Any]) -> None:
    client.run(delivery.once(call, number))


def _log_refusal(row: Entry, call: Command[Any], error: QlessError) -> None:
    # Payloads, contexts and other values are in no log.
    data = ", ".join(
        f"{jid}: {data_for_log(name, data)}" for jid, name, data in calls.jobs(call)
    )
    logger.error(
        "%s was not enqueued from the outbox: %s%s%.*s",
        *(row.summary, error, data and "; its data: ", MOST_LOGGED, data),
    )


def _tell(alias: str, ids: Iterable[str]) -> None:
    """Tell the server that entries are gone."""
    gone = list(ids)
    try:
        if gone:
            connections[alias].forget_once(gone)
    except QlessError:
        delivery.forget(alias, gone)


def _is_locked(error: DatabaseError) -> bool:
    """Return whether another sweep holds the entries: else the statement is wrong."""
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    number = cause.args[0] if cause is not None and cause.args else None
    return state == "55P03" or number in (1205, 3572)
