"""Queues: the list, and the routes of the pages and actions of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless.admin import formatting
from django_qless.admin.actions.empty_queue import EmptyQueue
from django_qless.admin.actions.queues import Forget, Limits, Pause, Resume
from django_qless.admin.components.queue_table import SORTS, queue_rows
from django_qless.admin.listing import listing
from django_qless.admin.pages.queue import QueuePage
from django_qless.admin.site import Route
from django_qless.admin.views import Page
from django_qless.operations.workers import ServedQueues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core.commands.queues import QueueCounts

ROWS = 100


class Queues(Page):
    """The page of all queues, by default the greatest lag first."""

    template = "queues.html"

    @property
    def sort(self) -> str:
        """The order of the list, one of SORTS."""
        by = self.request.GET.get("sort", "")
        return by if by in SORTS else SORTS[0]

    def content(self) -> dict[str, Any]:
        """Return a part of the queues whose names contain the search."""
        wanted = self.request.GET.get("q", "").strip()
        client = self.client
        found = [
            counts
            for counts in client.queues()
            if wanted.casefold() in counts.name.casefold()
        ]
        lags = {each.name: each.lag for each in client.survey()}
        ordered = sort_queues(found, self.sort, lags)
        shown = ordered[self.offset : self.offset + ROWS]
        names = [counts.name for counts in shown]
        if not lags.keys() >= set(names):
            # A survey of all has the first thousand queues.
            lags |= {each.name: each.lag for each in client.survey(names)}
        served = ServedQueues(client.workers(), self.now)
        with_lags = [(counts, lags.get(counts.name, 0)) for counts in shown]
        rows = queue_rows(self, with_lags, served)
        labels = {"lag": _("lag"), "name": _("name")}
        return {
            "listing": listing(self, rows, len(found)),
            "wanted": wanted,
            "sort": self.sort,
            "sorts": [(by, labels.get(by) or formatting.state(by)) for by in SORTS],
        }


def sort_queues(
    counts: Sequence[QueueCounts], by: str, lags: dict[str, float]
) -> list[QueueCounts]:
    """Return queues in one of the orders of SORTS, and then by name."""
    by_name = sorted(counts, key=lambda each: (each.name.casefold(), each.name))
    if by == "name":
        return by_name
    if by == "lag":
        return sorted(by_name, key=lambda each: -lags.get(each.name, 0))
    return sorted(by_name, key=lambda each: -int(getattr(each, by)))


ROUTES = (
    Route("", "changelist", Queues),
    Route("<str:segment>/change/", "change", QueuePage),
    *map(Route.of, (Pause, Resume, Limits, Forget, EmptyQueue)),
)
