"""Entities: the queues that have some, and the routes of the pages of one queue."""

from __future__ import annotations

from typing import Any

from django_qless.admin.actions.entities import EntityBulk
from django_qless.admin.components.entity_table import EntityQueue
from django_qless.admin.listing import listing
from django_qless.admin.pages.entity import EntityPage, EntityText
from django_qless.admin.pages.entity_queue import EntityQueuePage
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page
from django_qless.operations.partitioned import sum_of_entities

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
            "total": sum_of_entities(found) if found else None,
            "queues": len(found),
        }


class EntityAdmin(EntryAdmin):
    """The pages and actions of entities."""

    routes = (
        Route("", "changelist", Entities),
        Route("<str:segment>/change/", "change", EntityQueuePage),
        Route("<str:segment>/show/", "show", EntityPage),
        Route("<str:segment>/text/", "text", EntityText),
        Route.of(EntityBulk),
    )
