"""The jobs that somebody follows."""

from __future__ import annotations

from typing import Any

from django_qless.admin.actions.tracked import Track, TrackForm, Untrack
from django_qless.admin.listing import listing
from django_qless.admin.presenters.job import job_row
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page

COUNT = 50


class TrackedJobs(Page):
    """All tracked jobs, the last one tracked first."""

    template = "tracked.html"

    def content(self) -> dict[str, Any]:
        """Return a part of them, and those of the part that are gone."""
        offset = self.number("offset")
        found = self.client.tracked_jids(offset, COUNT)
        briefs = {brief.jid: brief for brief in self.client.brief(found.jids)}
        end = offset + len(found.jids)
        return {
            "listing": listing(
                self,
                [job_row(briefs[jid], self) for jid in found.jids if jid in briefs],
                offset=offset,
                total=found.total,
                following=end if found.jids and end < found.total else None,
            ),
            "gone": [jid for jid in found.jids if jid not in briefs],
            "form": TrackForm(),
        }


class TrackedAdmin(EntryAdmin):
    """Tracked jobs."""

    routes = (
        Route("", "changelist", TrackedJobs),
        Route("track/", "track", Track),
        Route("<str:segment>/untrack/", "untrack", Untrack),
    )
