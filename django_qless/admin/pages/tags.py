"""Tags: the list, and the jobs with one of them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from django_qless.admin.components.job_table import job_rows
from django_qless.admin.listing import listing
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page

ROWS = 50


class Tags(Page):
    """All tags, the most common first."""

    template = "tags.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the tags."""
        found = self.client.tag_counts(self.offset, ROWS)
        return {"listing": listing(self, found.tags, found.total)}


class TagPage(Page):
    """The jobs with one tag, the first tagged first."""

    template = "tag.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the jobs."""
        total = self.client.tagged(self.name, 0, 1).total
        found = self.client.placed_briefs([("tag", self.name, self.offset, ROWS)])
        rows = job_rows([brief for brief in found if brief is not None], self)
        return {
            "listing": listing(self, rows, total, read=len(found)),
            "total": total,
            "bulk": self.bulk(),
        }

    def bulk(self) -> list[tuple[str, str]]:
        """Return labels and URLs of the changes to all jobs with the tag."""
        here = self.links.url("tag_change", self.name)
        return [
            (label, self.links.bulk(change, back=here, tag=self.name))
            for change, label in (
                ("retry", _("Retry all that failed")),
                ("cancel", _("Cancel all")),
                ("move", _("Move all")),
                ("priority", _("Change priority of all")),
                ("track", _("Track all")),
            )
        ]


class TagAdmin(EntryAdmin):
    """The pages of tags."""

    routes = (
        Route("", "changelist", Tags),
        Route("<str:segment>/change/", "change", TagPage),
    )
