"""Jobs as rows of parts/job_table.html."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_qless.admin import formatting, listing
from django_qless.core.states import ENDED, HELD

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.core import Brief, ListKind
    from django_qless.operations.job_query import JobQuery

MOST_TAGS = 4
"""Tags that a row shows, before the number of others."""


@dataclass(frozen=True)
class JobRow:
    """A job as parts/job_table.html shows it."""

    brief: Brief
    url: str
    queue_url: str
    worker_url: str
    tags: list[tuple[str, str]]
    """Names and URLs of the first tags."""
    more_tags: int
    at: datetime | None
    """When it came into its state, or falls due."""
    age: str
    """The same in words: "in 5 min", "for 3 min", "3 min ago"."""
    percent: int | None
    """Its progress, of 100."""

    @property
    def tries(self) -> str:
        """The retries that are left, of all; "" if it is complete and has all again."""
        if self.brief.state == "complete":
            return ""
        return f"{max(self.brief.remaining, 0)}/{self.brief.retries}"


def selected_jobs(
    view: View, selection: JobQuery, count: int, *, searched: bool | None = None
) -> listing.Listing:
    """Return a page of the jobs of a selection, from the view's offset on.

    `searched`: whether it is shown as the result of a search; by default, if some of the
    jobs that were read do not match.
    """
    page = selection.briefs(
        view.client, offset=view.offset, count=count, seconds=listing.SEARCH_SECONDS
    )
    rows = job_rows(page.jobs, view)
    if page.scanned != len(rows) if searched is None else searched:
        return listing.scanned(
            view,
            rows,
            count=page.scanned,
            total=page.total,
            following=page.following,
        )
    return listing.listing(view, rows, page.total, read=page.scanned)


def listed_jobs(
    view: View, kind: ListKind, name: str, total: int, count: int
) -> listing.Listing:
    """Return a page of a list on the server that has `total` jobs."""
    found = view.client.placed_briefs([(kind, name, view.offset, count)])
    rows = job_rows([brief for brief in found if brief is not None], view)
    return listing.listing(view, rows, total, read=len(found))


def job_rows(briefs: Iterable[Brief], view: View) -> list[JobRow]:
    """Return the rows of these jobs, without asking the server about them."""
    return [job_row(brief, view) for brief in briefs]


def job_row(brief: Brief, view: View) -> JobRow:
    """Return the row of a job."""
    url = view.links.url
    progress = brief.progress if is_held(brief) else None
    return JobRow(
        brief=brief,
        url=url("job_change", brief.jid),
        queue_url=url("queue_change", brief.queue) if brief.queue else "",
        worker_url=url("worker_change", brief.worker) if is_held(brief) else "",
        tags=[(tag, url("tag_change", tag)) for tag in brief.tags[:MOST_TAGS]],
        more_tags=max(0, len(brief.tags) - MOST_TAGS),
        at=formatting.moment(brief.since if brief.due is None else brief.due),
        age=age(brief, view.now),
        percent=None
        if progress is None
        else round(100 * min(max(progress[0], 0.0), 1.0)),
    )


def age(brief: Brief, now: float) -> str:
    """Return a job's time in its state, or until due, in words."""
    if brief.state == "scheduled" and brief.due is not None and brief.due > now:
        return _("in %s") % formatting.span(brief.due - now)
    past = formatting.span(max(0.0, now - brief.since))
    if brief.state in ENDED:
        return _("%s ago") % past
    return _("for %s") % past


def is_held(brief: Brief) -> bool:
    """Return whether a worker holds the job; records keep the last worker's name."""
    return bool(brief.worker) and brief.state in HELD
