"""Jobs as rows of a table: what is shown of a brief, in words for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_qless.admin import words

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.core import Brief

MOST_TAGS = 4
"""Tags that a row shows; it says how many more there are."""


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
    """That in words: "in 5 min", "for 3 min", "3 min ago"."""
    percent: int | None
    """How far it is, of 100; None if it did not say."""

    @property
    def tries(self) -> str:
        """How often it may still be tried again, of how many times."""
        return f"{max(self.brief.remaining, 0)}/{self.brief.retries}"


def job_rows(briefs: Iterable[Brief], view: View) -> list[JobRow]:
    """Return what parts/job_table.html shows of these jobs. Asks the server nothing.

    (Except for its time, which a view asks for once.)
    """
    return [job_row(brief, view) for brief in briefs]


def job_row(brief: Brief, view: View) -> JobRow:
    """Return what a line of a table shows of a job."""
    url = view.links.url
    progress = brief.progress if is_held(brief) else None
    return JobRow(
        brief=brief,
        url=url("job_change", brief.jid),
        queue_url=url("queue_change", brief.queue) if brief.queue else "",
        worker_url=url("worker_change", brief.worker) if is_held(brief) else "",
        tags=[(tag, url("tag_change", tag)) for tag in brief.tags[:MOST_TAGS]],
        more_tags=max(0, len(brief.tags) - MOST_TAGS),
        at=words.moment(_moment(brief)),
        age=age(brief, view.now),
        percent=None if progress is None else percent(progress[0]),
    )


def age(brief: Brief, now: float) -> str:
    """Return since when a job is in its state, or when it falls due, in words."""
    if brief.state == "scheduled" and brief.due is not None and brief.due > now:
        return _("in %s") % words.span(brief.due - now)
    past = words.span(max(0.0, now - brief.since))
    if brief.state in ("complete", "failed", "canceled"):
        return _("%s ago") % past
    return _("for %s") % past


def is_held(brief: Brief) -> bool:
    """Return whether a worker has the job: a record keeps the name of the last one."""
    return bool(brief.worker) and brief.state in ("running", "stalled")


def percent(fraction: float) -> int:
    """Return a fraction of 1 as a whole number of percent, from 0 to 100."""
    return round(100 * min(max(fraction, 0.0), 1.0))


def _moment(brief: Brief) -> float:
    return brief.since if brief.due is None else brief.due
