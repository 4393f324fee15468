"""Tags: how many jobs carry each, and the jobs with one of them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from django_qless.admin.bulk import bulk_url
from django_qless.admin.listing import listing
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page

COUNT = 50


class Tags(Page):
    """All tags, the commonest first."""

    template = "tags.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the tags."""
        offset = self.number("offset")
        found = self.client.tag_counts(offset, COUNT)
        end = offset + len(found.tags)
        return {
            "listing": listing(
                self,
                found.tags,
                offset=offset,
                total=found.total,
                following=end if found.tags and end < found.total else None,
            )
        }


class TagPage(Page):
    """The jobs with one tag, the first tagged first."""

    template = "tag.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the jobs. A tag that no job carries (any more) has none."""
        offset = self.number("offset")
        total = self.client.tagged(self.name, 0, 1).total
        found = self.client.placed_briefs([("tag", self.name, offset, COUNT)])
        end = offset + len(found)
        return {
            "listing": listing(
                self,
                job_rows([brief for brief in found if brief is not None], self),
                offset=offset,
                total=max(total, end) if found else total,
                following=end if found and end < total else None,
            ),
            "total": total,
            "bulk": self.bulk(),
        }

    def bulk(self) -> list[tuple[str, str]]:
        """Return what can be done with all jobs that carry the tag: labels, URLs."""
        here = self.links.url("tag_change", self.name)
        verbs = (
            ("retry", _("Retry all that failed")),
            ("cancel", _("Cancel all")),
            ("move", _("Move all")),
            ("priority", _("Change priority of all")),
            ("track", _("Track all")),
        )
        return [
            (label, bulk_url(self.links, verb, back=here, tag=self.name))
            for verb, label in verbs
        ]


class TagAdmin(EntryAdmin):
    """Tags: the list, and the jobs with each."""

    routes = (
        Route("", "changelist", Tags),
        Route("<str:segment>/change/", "change", TagPage),
    )
