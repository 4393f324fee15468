"""Entities: the queues that have some, and the routes of the pages of one queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django_qless.admin.actions.entities import EntityBulk
from django_qless.admin.components.entity_table import EntityQueue
from django_qless.admin.listing import listing
from django_qless.admin.pages.entity import EntityPage, EntityText
from django_qless.admin.pages.entity_queue import EntityQueuePage
from django_qless.admin.site import Route
from django_qless.admin.views import Page

if TYPE_CHECKING:
    from django_qless.core.commands.entities import EntityCounts

ROWS = 50


class Entities(Page):
    """The page of all queues with entities, the greatest lag first."""

    template = "entities.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the queues, and the figures of all of them."""
        found = self.client.entity_counts()
        by_lag = sorted(found, key=lambda each: (-each.lag, each.queue))
        part = by_lag[self.offset : self.offset + ROWS]
        rows = [EntityQueue(each, self.links) for each in part]
        return {
            "listing": listing(self, rows, len(found)),
            "total": totals_of(found) if found else None,
            "queues": len(found),
        }


def totals_of(counts: Sequence[EntityCounts]) -> EntityCounts:
    """Return the sums of the figures of several queues, and their oldest lag."""
    names = ("queued", "fresh", "retries", "busy", "dead", "processed", "failed")
    return counts[0]._replace(
        lag=max(each.lag for each in counts),
        **{name: sum(getattr(each, name) for each in counts) for name in names},
    )


ROUTES = (
    Route("", "changelist", Entities),
    Route("<str:segment>/change/", "change", EntityQueuePage),
    Route("<str:segment>/show/", "show", EntityPage),
    Route("<str:segment>/text/", "text", EntityText),
    Route.of(EntityBulk),
)
