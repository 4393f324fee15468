"""Tags: the list, and the jobs with one of them."""

from __future__ import annotations

from typing import Any

from django_qless.admin.actions.bulk_texts import bulk_links
from django_qless.admin.components.job_table import listed_jobs
from django_qless.admin.listing import listing
from django_qless.admin.site import Route
from django_qless.admin.views import Page

ROWS = 50


class Tags(Page):
    """The page of all tags, the most common first."""

    template = "tags.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the tags."""
        found = self.client.tag_counts(self.offset, ROWS)
        return {"listing": listing(self, found.tags, found.total)}


class TagPage(Page):
    """The page of the jobs with one tag, the first tagged first."""

    template = "tag.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the jobs."""
        total = self.client.tagged(self.name, 0, 1).total
        changes = ("retry", "cancel", "move", "priority", "track")
        here = self.links.url("tag_change", self.name)
        return {
            "listing": listed_jobs(self, "tag", self.name, total, ROWS),
            "changes": bulk_links(self, changes, back=here, tag=self.name)
            if total
            else [],
        }


ROUTES = (
    Route("", "changelist", Tags),
    Route("<str:segment>/change/", "change", TagPage),
)
