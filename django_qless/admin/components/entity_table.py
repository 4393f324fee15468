"""Entities as rows of tables: queues with their figures, and the entities of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from django_qless.admin.formatting import moment
from django_qless.core.commands.entities import EntityCounts

if TYPE_CHECKING:
    from datetime import datetime

    from django.utils.functional import _StrOrPromise

    from django_qless.admin.links import Links
    from django_qless.admin.views import View
    from django_qless.core import Brief

TABS: dict[str, _StrOrPromise] = {
    "fresh": _("Fresh"),
    "retrying": _("Retrying"),
    "running": _("Running"),
    "dead": _("Dead"),
}
"""The lists of a queue's entities, in the order in which an entity goes through them."""

MEANINGS: dict[str, _StrOrPromise] = {
    "fresh": _("Their last run has not failed. The next to run comes first."),
    "retrying": _(
        "Their last run has failed, or they were brought back from the dead. The next to "
        "run comes first."
    ),
    "running": _("A worker has them. The one whose lock expires next comes first."),
    "dead": _(
        "Payloads whose retries are used up. They stay until they are brought back or "
        "deleted."
    ),
}


@dataclass(frozen=True)
class EntityQueue:
    """A queue with entities: its figures, and links to its lists."""

    counts: EntityCounts
    links: Links

    @cached_property
    def url(self) -> str:
        """The page of its entities."""
        return self.links.url("entity_change", self.counts.queue)

    @property
    def tabs(self) -> list[tuple[str, _StrOrPromise, int, str]]:
        """The lists: word, name, length and URL."""
        counts = self.counts
        lengths = (counts.fresh, counts.retries, counts.busy, counts.dead)
        start = self.url + ("&tab=" if "?" in self.url else "?tab=")
        return [
            (tab, name, length, start + tab)
            for (tab, name), length in zip(TABS.items(), lengths, strict=True)
        ]

    @property
    def cells(self) -> list[tuple[int, str]]:
        """Busy, queued, fresh, retries and dead, each with a URL or ""."""
        fresh, retrying, running, dead = [
            (number, url) for _word, _name, number, url in self.tabs
        ]
        return [running, (self.counts.queued, ""), fresh, retrying, dead]


@dataclass(frozen=True)
class EntityRow:
    """An entity as a list shows it."""

    entity: str
    url: str
    payloads: int
    taken: int
    """Payloads of the run that is going on."""
    count: int | None
    """How often it has failed in a row, less one; None for a dead one."""
    at: datetime | None
    """When it may run or is due since, came into a worker's hands, or died."""
    seconds: float
    """The time from now until then; negative if it has passed."""
    group: str
    error: str
    worker: str
    worker_url: str

    @property
    def is_ahead(self) -> bool:
        """True if it may run later only."""
        return self.seconds > 0

    @property
    def span(self) -> float:
        """The seconds between now and then."""
        return abs(self.seconds)


def entity_rows(
    view: View, queue: str, rows: Sequence[dict[str, Any]], briefs: Sequence[Brief] = ()
) -> list[EntityRow]:
    """Return the rows of a list; `briefs` are those of running ones."""
    since = {each.jid: each.since for each in briefs}
    return [_row(view, queue, row, since.get(row["jid"])) for row in rows]


def _row(view: View, queue: str, row: dict[str, Any], since: float | None) -> EntityRow:
    failure = row.get("failure", row) or {}
    at = since or row.get("when") or row.get("due") or 0.0
    worker = str(row.get("worker", "")) if row.get("state") == "running" else ""
    url = view.links.url
    return EntityRow(
        entity=row["entity"],
        url=url("entity_show", queue, entity=row["entity"]),
        payloads=row["payloads"],
        taken=row.get("taken", 0),
        count=row.get("count"),
        at=moment(at),
        seconds=at - view.now,
        group=str(failure.get("group", "")),
        error=str(failure.get("message", "")) if view.may.data else "",
        worker=worker,
        worker_url=url("worker_change", worker) if worker else "",
    )
