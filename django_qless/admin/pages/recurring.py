"""Recurring jobs: the list, the page of one, and the routes of their actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions import recurring as actions
from django_qless.admin.components import schedule_table
from django_qless.admin.components.audit_log import audit_entries
from django_qless.admin.components.job_table import job_rows
from django_qless.admin.components.schedule_table import schedule_rows
from django_qless.admin.formatting import WHOLE, head
from django_qless.admin.listing import Listing, listing, scanned
from django_qless.admin.site import Route
from django_qless.admin.views import Crumb, Missing, Page
from django_qless.job_types.redaction import redact

if TYPE_CHECKING:
    from django_qless.core import Schedule

ROWS = 50
SCANNED = 1000


class Schedules(Page):
    """The page of all recurring jobs: cron first, then paused ones, then by queue."""

    template = "recurring.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the schedules, and those that the server lacks."""
        wanted = self.request.GET.get("q", "").strip()
        return {
            "listing": self.matching(wanted) if wanted else self.all(),
            "wanted": wanted,
            "missing": schedule_table.missing(self.client, self.alias)[:ROWS],
        }

    def all(self) -> Listing:
        """Return a page of all schedules."""
        part = self.client.schedule_list(self.offset, ROWS)
        return listing(self, schedule_rows(part.schedules, self), part.total)

    def matching(self, wanted: str) -> Listing:
        """Return those of 1,000 schedules whose id, name or queue contains a text."""
        text = wanted.casefold()
        part = self.client.schedule_list(self.offset, SCANNED)
        chosen, read = [], 0
        for schedule in part.schedules:
            read += 1
            names = (schedule.id, schedule.name, schedule.klass, schedule.queue)
            if any(text in name.casefold() for name in names):
                chosen.append(schedule)
                if len(chosen) == ROWS:
                    break
        end = self.offset + read
        return scanned(
            self,
            schedule_rows(chosen, self),
            count=read,
            total=part.total,
            following=end if read and end < part.total else None,
        )


class _SchedulePage(Page):
    def find(self) -> Schedule:
        """Return the schedule that the URL names. Raises Missing."""
        schedule = self.client.schedule_get(self.name)
        if schedule is None:
            raise Missing(
                _(
                    "There is no recurring job with this id: it was removed, or never "
                    "created. The list shows declared ones that can be restored."
                )
            )
        return schedule


class RecurringPage(_SchedulePage):
    """The page of a recurring job: its schedule, ticks and jobs."""

    template = "schedule.html"

    def content(self) -> dict[str, Any]:
        """Return the schedule's details, ticks and jobs."""
        schedule = self.find()
        (row,) = schedule_rows([schedule], self)
        redacted = redact(schedule.klass, schedule.data)
        jobs = schedule_table.recent_jobs(self.client, schedule)
        declared = schedule_table.declared_in_code(self.alias)
        ids = f"{schedule.id}{'@*' if schedule.every is None else '-*'}"
        return {
            "schedule": schedule,
            "handle": row.handle,
            "queue_url": row.queue_url,
            "missed": schedule_table.MISSED.get(schedule.missed, schedule.missed),
            "next_times": schedule_table.next_times(schedule, self.now),
            "last_times": schedule_table.last_times(schedule, jobs),
            "is_declared": schedule.id in declared,
            "arguments": head(redacted.text) if self.may.data else None,
            "hidden": redacted.hidden,
            "rows": job_rows(jobs, self),
            "search_url": self.links.url("job_changelist", None, jid=ids),
            "audit_log": audit_entries(models.Recurring, self.name),
        }


class RecurringText(_SchedulePage):
    """The page of a recurring job's arguments."""

    template = "schedule_text.html"
    permission = permissions.DATA

    def content(self) -> dict[str, Any]:
        """Return the text."""
        schedule = self.find()
        redacted = redact(schedule.klass, schedule.data)
        return {"text": head(redacted.text, WHOLE)}

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs."""
        url = self.links.url("recurring_change", self.name)
        return [*super().crumbs()[:-1], Crumb(self.name, url), Crumb(_("Arguments"))]


ROUTES = (
    Route("", "changelist", Schedules),
    Route("<str:segment>/change/", "change", RecurringPage),
    Route("<str:segment>/text/", "text", RecurringText),
    *map(
        Route.of,
        (
            actions.RunNow,
            actions.Pause,
            actions.Resume,
            actions.Remove,
            actions.Reset,
            actions.Edit,
        ),
    ),
)
