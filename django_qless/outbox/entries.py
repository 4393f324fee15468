"""Entries of this process: written, delivered right after the commit, and taken out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from django.db import DatabaseError

from django_qless.core import NotReplicated, QlessError
from django_qless.core.exceptions import REFUSALS
from django_qless.outbox import backlog, calls
from django_qless.outbox.delivery import Delivery, forget
from django_qless.outbox.tables import Now, entries, entry_model, explained, source

if TYPE_CHECKING:
    from django_qless.outbox.models import Entry

logger = logging.getLogger("django_qless")

#: Bytes of calls in one INSERT. MariaDB takes statements of 16 MiB, if not told otherwise,
#: in which each quote and backslash takes two bytes.
INSERT_BYTES = 7 * 1024 * 1024

MOST_SUMMARY = 200


class Written(NamedTuple):
    """The entries of one thing that is enqueued, as they are in the table."""

    database: str
    alias: str
    rows: Sequence[Entry]

    @property
    def first(self) -> int | None:
        """The id of the first entry, if the database has told it."""
        return self.rows[0].pk

    def remove(self) -> None:
        """Take the entries out: they are delivered. Raises DatabaseError."""
        ids = [row.delivery for row in self.rows]
        if self.first is None:
            entries(self.database).filter(delivery__in=ids).delete()
        else:
            entries(self.database).filter(id__in=[row.pk for row in self.rows]).delete()


def write(dispatchable: Any, database: str, base: str) -> Written:
    """Write what is enqueued into the outbox of a database, in as few INSERTs as it allows.

    Each call to the server is an entry. Raises ImproperlyConfigured if there is no outbox.
    """
    rows = _rows(dispatchable, base)
    _insert(rows, database)
    return Written(database, dispatchable.alias, rows)


def _rows(dispatchable: Any, base: str) -> list[Entry]:
    model, alias, mine = entry_model(), dispatchable.alias, source()
    jobs, summary = len(dispatchable.handles), _shortened(dispatchable.title)
    return [
        model(
            delivery=f"{base}/{number}",
            source=mine,
            alias=alias,
            created=Now(),
            jobs=0 if number else jobs,
            summary=summary,
            command=calls.written(call),
        )
        for number, call in enumerate(dispatchable.commands())
    ]


def _insert(rows: Sequence[Entry], database: str) -> None:
    try:
        for some in _batches(rows):
            entries(database).bulk_create(some)
    except DatabaseError as error:
        better = explained(error, database)
        if better is error:
            raise  # With the driver's error as its cause.
        raise better from error


class Kept:
    """What is enqueued by way of an outbox: what the dispatcher sends on commit."""

    def __init__(self, dispatchable: Any, written: Written, delivery: Delivery) -> None:
        self._dispatchable = dispatchable
        self._written = written
        self._delivery = delivery

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatchable, name)

    def send_on_commit(self) -> None:
        """Deliver it and take it out; what cannot be delivered now is left to a sweep."""
        written = self._written
        place = written.database, written.alias
        if not backlog.is_over(*place, written.first):
            return
        self._dispatchable.through = self._delivery
        try:
            self._dispatchable.send_on_commit()
        except NotReplicated:
            # It stays until replicas have it: should it be lost, it is delivered again.
            raise
        except REFUSALS as error:
            logger.error("%s was not enqueued on commit: %s", self._summary, error)
        except QlessError as error:
            backlog.begin(*place, error)
            return
        self._take_out()

    def mark_enqueued(self, *args: Any) -> None:
        """Note that it is enqueued, and take it out."""
        self._dispatchable.mark_enqueued(*args)
        self._take_out()

    @property
    def _summary(self) -> str:
        return self._written.rows[0].summary

    def _take_out(self) -> None:
        written = self._written
        try:
            written.remove()
        except DatabaseError as error:
            logger.warning("a sweep takes %s out later: %s", self._summary, error)
            return
        forget(written.alias, self._delivery.ids)


def keep(some: Sequence[Any], database: str) -> list[Kept]:
    """Write these into the outbox, in the transaction that is open; return what to send.

    In as few INSERTs as it allows, of all together.
    """
    deliveries = [Delivery(uuid4().hex, each.alias) for each in some]
    rows = [
        _rows(each, delivery.base)
        for each, delivery in zip(some, deliveries, strict=True)
    ]
    _insert([row for own in rows for row in own], database)
    return [
        Kept(each, Written(database, each.alias, own), delivery)
        for each, own, delivery in zip(some, rows, deliveries, strict=True)
    ]


def _batches(rows: Sequence[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for row in rows:
        more = len(row.command.encode())
        if batch and size + more > INSERT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += more
    if batch:
        yield batch


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_SUMMARY else f"{text[: MOST_SUMMARY - 1]}…"
