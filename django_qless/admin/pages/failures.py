"""Failures: the groups, and the jobs of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin.actions.bulk_texts import bulk_links
from django_qless.admin.components.audit_log import audit_entries
from django_qless.admin.components.job_table import selected_jobs
from django_qless.admin.components.traceback import trace
from django_qless.admin.formatting import Text, tail
from django_qless.admin.listing import listing
from django_qless.admin.site import Route
from django_qless.admin.views import Page
from django_qless.core.commands.pages import GroupOrder
from django_qless.operations.job_query import JobQuery

if TYPE_CHECKING:
    from django_qless.core import FailureGroup

ROWS = 50
MESSAGE = 8 * 1024
"""Bytes of HTML for the error on the page of a group."""
FILTERS = ("klass", "queue")


class Failures(Page):
    """The page of all failure groups, the largest or the latest first."""

    template = "failures.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the groups."""
        found = self.client.failure_groups(self.offset, ROWS, order=self.order)
        back = self.links.url("failure_changelist")
        bulk = self.links.bulk
        rows = [
            {
                "group": group,
                "retry_url": bulk("retry", back=back, group=group.name),
                "cancel_url": bulk("cancel", back=back, group=group.name),
                "message": summary_line(group) if self.may.data else None,
            }
            for group in found.groups
        ]
        return {
            "listing": listing(self, rows, found.total_groups),
            "total": found.total_jobs,
            "orders": self.orders(),
            "changes": bulk_links(self, ("retry", "cancel"), back=back, state="failed"),
        }

    @property
    def order(self) -> GroupOrder:
        """The order of the groups."""
        return "last" if self.request.GET.get("order") == "last" else "count"

    def orders(self) -> list[tuple[str, str, bool]]:
        """Return the label and URL of each order, and whether it is in use."""
        names = {"count": _("Most jobs first"), "last": _("Latest first")}
        return [
            (
                names[order],
                self.links.url("failure_changelist", None, order=order),
                order == self.order,
            )
            for order in get_args(GroupOrder)
        ]


def summary_line(group: FailureGroup) -> str:
    """Return the most telling line of the latest message: of a traceback, the last."""
    lines = [line.strip() for line in group.message_head.splitlines() if line.strip()]
    if not lines or lines[0].startswith("Traceback (most recent"):
        return group.message_end
    return lines[0]


class FailurePage(Page):
    """The page of a failure group and its jobs, the latest failure first.

    A group exists as long as a job is in it; the page of an empty one says so.
    """

    template = "failure.html"

    def content(self) -> dict[str, Any]:
        """Return the group, and a page of its jobs."""
        group = self.client.failure_group(self.name)
        message = self.message(group) if group and self.may.data else None
        given = self.request.GET
        chosen = {name: given[name] for name in FILTERS if given.get(name)}
        selection = JobQuery(group=self.name, **chosen)
        here = self.links.url("failure_change", self.name, **chosen)
        return {
            "group": group,
            "message": message,
            "trace": trace(message.text) if message else None,
            "listing": selected_jobs(self, selection, ROWS, searched=bool(chosen)),
            "chosen": chosen,
            "changes": bulk_links(
                self,
                ("retry", "cancel", "move", "tag"),
                back=here,
                group=self.name,
                **chosen,
            ),
            "audit_log": audit_entries(models.Failure, self.name),
        }

    def message(self, group: FailureGroup) -> Text:
        """Return the end of the latest error, from a whole line on."""
        job = self.client.get(group.jid)
        found = job.failure.message if job and job.failure else group.message_end
        end = tail(found, MESSAGE)
        _, _, rest = end.text.partition("\n")
        return Text(rest, True) if end.is_cut and rest else end


ROUTES = (
    Route("", "changelist", Failures),
    Route("<str:segment>/change/", "change", FailurePage),
)
