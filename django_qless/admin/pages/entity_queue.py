"""The page of a queue's entities: fresh, retrying, running and dead ones."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin.actions.bulk_texts import BulkLink
from django_qless.admin.actions.entity_texts import (
    OF_ALL,
    links_of_all,
    selection_buttons,
)
from django_qless.admin.components.audit_log import audit_entries
from django_qless.admin.components.entity_table import (
    MEANINGS,
    TABS,
    EntityQueue,
    entity_rows,
)
from django_qless.admin.listing import listing
from django_qless.admin.views import Missing, Page
from django_qless.operations.workers import ServedQueues

if TYPE_CHECKING:
    from django_qless.core.commands.entities import EntityCounts, EntityList

ROWS = 50


class EntityQueuePage(Page):
    """The page of a queue's entities; the tab selects the list."""

    template = "entities/queue.html"

    @property
    def title(self) -> str:
        """The headline; the name of the queue stands below it."""
        return _("Entities")

    @cached_property
    def counts(self) -> EntityCounts:
        """The figures of the queue. Raises Missing if it never had an entity."""
        counts = self.client.entity_counts([self.name])[0]
        if not counts.klass:
            raise Missing(_("The queue “%s” has no entities.") % self.name)
        return counts

    @cached_property
    def tab(self) -> str:
        """One of TABS; by default the first one that has entities."""
        asked = self.request.GET.get("tab", "")
        if asked in TABS:
            return asked
        counts = self.counts
        lengths = (counts.fresh, counts.retries, counts.busy, counts.dead)
        return next((tab for tab, n in zip(TABS, lengths, strict=True) if n), "fresh")

    @property
    def oldest_first(self) -> bool:
        """Whether the oldest of the dead come first, not the latest."""
        return self.tab == "dead" and self.request.GET.get("sort") == "oldest"

    def content(self) -> dict[str, Any]:
        """Return the figures, and a part of the list."""
        counts, client = self.counts, self.client
        queue = client.queue_counts(self.name)
        return {
            "counts": counts,
            "queue": EntityQueue(counts, self.links),
            "paused": queue.paused,
            "is_served": ServedQueues(client.workers(), self.now).serves(self.name),
            "tab": self.tab,
            "tab_name": TABS[self.tab],
            "meaning": MEANINGS[self.tab],
            "listing": self.listed(),
            "oldest_first": self.oldest_first,
            "sorts": self.sorts(),
            "buttons": selection_buttons(self.tab),
            "changes": self.changes(),
            "audit_log": audit_entries(models.Queue, self.name, 5),
        }

    def changes(self) -> list[BulkLink]:
        """Return links to the changes of all that belong to the tab."""
        numbers = {
            "run": self.counts.delayed,
            **dict.fromkeys(("kill", "delete"), self.counts.retries),
            **dict.fromkeys(("revive", "delete-dead"), self.counts.dead),
        }
        return links_of_all(self, [each for each in OF_ALL[self.tab] if numbers[each]])

    def listed(self) -> Any:
        """Return a part of the list, with one call, or two for running entities."""
        # `tab` has found it among the lists.
        which: EntityList = "oldest-dead" if self.oldest_first else self.tab  # type: ignore[assignment]
        found = self.client.entities(which, self.name, self.offset, ROWS)
        jids = [row["jid"] for row in found.rows] if which == "running" else []
        briefs = self.client.brief(jids) if jids else []
        rows = entity_rows(self, self.name, found.rows, briefs)
        return listing(self, rows, found.total)

    def sorts(self) -> list[tuple[str, str, bool]]:
        """Return the orders of the dead: word, URL, and whether it is this one."""
        url = self.links.url
        return [
            (
                _("Latest first"),
                url("entity_change", self.name, tab="dead"),
                not self.oldest_first,
            ),
            (
                _("Oldest first"),
                url("entity_change", self.name, tab="dead", sort="oldest"),
                self.oldest_first,
            ),
        ]
