"""The list of queues."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from django_qless.admin.actions.queues import Forget, Limits, Pause, Resume
from django_qless.admin.bulk import EmptyQueue
from django_qless.admin.links import quote
from django_qless.admin.listing import listing
from django_qless.admin.pages.queue import QueuePage
from django_qless.admin.presenters.queues import (
    SORTS,
    ordered,
    queue_row,
    sort_label,
)
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page
from django_qless.worker.serving import Coverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core.commands.queues import QueueCounts

COUNT = 100

#: How many bytes the names on a page may have as parts of URLs: a row names its queue up
#: to ten times, and a name of 255 bytes can take three times as many when quoted.
NAMES = 24 * 1024


class Queues(Page):
    """All queues, the one whose oldest job has waited longest first."""

    template = "queues.html"

    @property
    def sort(self) -> str:
        """What the queues are sorted by."""
        by = self.request.GET.get("sort", "")
        return by if by in SORTS else SORTS[0]

    def content(self) -> dict[str, Any]:
        """Return a part of the queues whose names contain what was searched for."""
        wanted = self.request.GET.get("q", "").strip()
        client = self.client
        found = [
            counts
            for counts in client.queues()
            if wanted.casefold() in counts.name.casefold()
        ]
        lags = {each.name: each.lag for each in client.survey()}
        offset = self.number("offset")
        shown = fitting(ordered(found, self.sort, lags)[offset : offset + COUNT])
        names = [counts.name for counts in shown]
        if not lags.keys() >= set(names):
            # A survey of all has the first thousand queues.
            lags |= {each.name: each.lag for each in client.survey(names)}
        failed = client.failed_of(names) if names else []
        recurring = client.recurring_of(names) if names else []
        workers = Coverage(client.workers(), self.now)
        rows = [
            queue_row(
                counts._replace(recurring=schedules),
                lag=lags.get(counts.name, 0),
                failed=number,
                is_served=workers.serves(counts.name),
                links=self.links,
            )
            for counts, number, schedules in zip(shown, failed, recurring, strict=True)
        ]
        end = offset + len(rows)
        return {
            "listing": listing(
                self,
                rows,
                offset=offset,
                total=len(found),
                following=end if rows and end < len(found) else None,
            ),
            "wanted": wanted,
            "sort": self.sort,
            "sorts": [(by, sort_label(by)) for by in SORTS],
        }


def fitting(queues: Sequence[QueueCounts]) -> list[QueueCounts]:
    """Return so many of the first queues that their names do not make a page too large."""
    sizes = accumulate(len(quote(counts.name)) for counts in queues)
    return [each for each, size in zip(queues, sizes, strict=True) if size <= NAMES]


class QueueAdmin(EntryAdmin):
    """Queues: the list, each of them, and what can be done with one."""

    routes = (
        Route("", "changelist", Queues),
        Route("<str:segment>/change/", "change", QueuePage),
        Route("<str:segment>/pause/", "pause", Pause),
        Route("<str:segment>/resume/", "resume", Resume),
        Route("<str:segment>/limits/", "limits", Limits),
        Route("<str:segment>/forget/", "forget", Forget),
        Route("<str:segment>/empty/", "empty", EmptyQueue),
    )
