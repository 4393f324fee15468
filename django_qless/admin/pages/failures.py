"""What has failed: the groups, and the jobs of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin import listing
from django_qless.admin.bulk import bulk_url
from django_qless.admin.presenters.failures import group_rows, verbs
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.presenters.operators import deeds
from django_qless.admin.presenters.texts import Text, tail
from django_qless.admin.presenters.trace import trace
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page
from django_qless.core.commands.looking import GroupOrder
from django_qless.selection import Selection

if TYPE_CHECKING:
    from django_qless.core import FailureGroup

ROWS = 50
MESSAGE = 8 * 1024
"""Bytes of HTML that an error may take on the page of a group."""
FILTERS = ("klass", "queue")


class Failures(Page):
    """All groups: the largest, or those that failed last, first."""

    template = "failures.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the groups."""
        offset, order = self.number("offset"), self.order
        found = self.client.failure_groups(offset, ROWS, order=order)
        end = offset + len(found.groups)
        rows = group_rows(found.groups, self)
        return {
            "listing": listing.listing(
                self,
                rows,
                offset=offset,
                total=found.total_groups,
                following=end if rows and end < found.total_groups else None,
            ),
            "total": found.total_jobs,
            "orders": self.orders(),
            "verbs": self.verbs(),
        }

    @property
    def order(self) -> GroupOrder:
        """What the groups are sorted by."""
        return "last" if self.request.GET.get("order") == "last" else "count"

    def orders(self) -> list[tuple[str, str, bool]]:
        """Return the names and links of the orders, and which it is."""
        names = {"count": _("Most jobs first"), "last": _("Latest first")}
        return [
            (
                names[order],
                self.links.url("failure_changelist", None, order=order),
                order == self.order,
            )
            for order in get_args(GroupOrder)
        ]

    def verbs(self) -> list[tuple[str, str, bool]]:
        """Return what can be done to all failed jobs, whatever their group."""
        if not self.may.jobs:
            return []
        back = self.links.url("failure_changelist")
        return [
            (text, bulk_url(self.links, verb, back=back, state="failed"), is_danger)
            for verb, text, is_danger in verbs()[:2]
        ]


class FailurePage(Page):
    """One group, and its jobs: those that failed last come first.

    A group is there as long as a job is in it; without any the page says so.
    """

    template = "failure.html"

    def content(self) -> dict[str, Any]:
        """Return the group, and a page of its jobs."""
        group = self.group
        message = self.message(group) if group and self.may.data else None
        return {
            "group": group,
            "message": message,
            "trace": trace(message.text) if message else None,
            "listing": self.jobs(),
            "chosen": self.chosen,
            "verbs": self.verbs(),
            "deeds": deeds(models.Failure, self.name),
            "alone": len(self.chosen) == 0,
        }

    @property
    def group(self) -> FailureGroup | None:
        """What the server knows of the group; None if no job is in it."""
        return self.client.failure_group(self.name)

    def message(self, group: FailureGroup) -> Text:
        """Return how the error of the job that failed last ends, from a whole line on."""
        job = self.client.get(group.jid)
        found = job.failure.message if job and job.failure else group.message_end
        end = tail(found, MESSAGE)
        _, _, rest = end.text.partition("\n")
        return Text(rest, True) if end.is_cut and rest else end

    @property
    def chosen(self) -> dict[str, str]:
        """What the jobs shown have in common, beside the group."""
        given = self.request.GET
        return {name: given[name] for name in FILTERS if given.get(name)}

    def jobs(self) -> listing.Listing:
        """Return a page of the jobs."""
        selection = Selection(group=self.name, **self.chosen)
        offset = self.number("offset")
        page = selection.briefs(
            self.client, offset=offset, count=ROWS, seconds=listing.SEARCH_SECONDS
        )
        rows, searched = job_rows(page.jobs, self), bool(self.chosen)
        return listing.selected(self, rows, page, offset=offset, searched=searched)

    def verbs(self) -> list[tuple[str, str, bool]]:
        """Return what can be done to all jobs that match."""
        if not self.may.jobs:
            return []
        here = self.links.url("failure_change", self.name, **self.chosen)
        chosen = {"group": self.name, **self.chosen}
        return [
            (text, bulk_url(self.links, verb, back=here, **chosen), is_danger)
            for verb, text, is_danger in verbs()
        ]


class FailureAdmin(EntryAdmin):
    """The pages of failure groups; what is done to their jobs is a bulk action."""

    routes = (
        Route("", "changelist", Failures),
        Route("<str:segment>/change/", "change", FailurePage),
    )
