"""What recurs: the list, the page of one, and where its actions are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions import recurring as actions
from django_qless.admin.actions.recurring_edit import Edit
from django_qless.admin.listing import Listing, listing, scanned
from django_qless.admin.presenters import schedule as presenter
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.presenters.operators import deeds
from django_qless.admin.presenters.texts import WHOLE, head
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Crumb, Missing, Page, View
from django_qless.redaction import redact

if TYPE_CHECKING:
    from django_qless.core import Schedule

ROWS = 50
SCANNED = 1000


class Schedules(Page):
    """All: by cron, the next to tick first; then paused ones; then queue by queue."""

    template = "recurring.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the schedules, and what the server lacks."""
        wanted = self.request.GET.get("q", "").strip()
        return {
            "listing": self.matching(wanted) if wanted else self.all(),
            "wanted": wanted,
            "not_there": list(presenter.not_there(self.client, self.alias))[:ROWS],
        }

    def all(self) -> Listing:
        """Return a page of all."""
        offset = self.number("offset")
        part = self.client.schedule_list(offset, ROWS)
        end = offset + len(part.schedules)
        return listing(
            self,
            presenter.schedule_rows(part.schedules, self),
            offset=offset,
            total=part.total,
            following=end if part.schedules and end < part.total else None,
        )

    def matching(self, wanted: str) -> Listing:
        """Return those of a thousand whose id, name or queue has the text in it."""
        offset, text = self.number("offset"), wanted.casefold()
        part = self.client.schedule_list(offset, SCANNED)
        chosen, looked_at = [], 0
        for schedule in part.schedules:
            looked_at += 1
            names = (schedule.id, schedule.name, schedule.klass, schedule.queue)
            if any(text in name.casefold() for name in names):
                chosen.append(schedule)
                if len(chosen) == ROWS:
                    break
        end = offset + looked_at
        return scanned(
            self,
            presenter.schedule_rows(chosen, self),
            offset=offset,
            count=looked_at,
            total=part.total,
            following=end if looked_at and end < part.total else None,
        )


class RecurringPage(Page):
    """One: when it ticks, what it puts, what became of that."""

    template = "schedule.html"

    def content(self) -> dict[str, Any]:
        """Return what is known of it."""
        schedule = found(self)
        (row,) = presenter.schedule_rows([schedule], self)
        redacted = redact(schedule.klass, schedule.data, self.alias)
        jobs = presenter.recent_jobs(self.client, schedule)
        return {
            "schedule": schedule,
            "handle": row.handle,
            "queue_url": row.queue_url,
            "missed": presenter.MISSED.get(schedule.missed, schedule.missed),
            "next_times": presenter.next_times(schedule, self.now),
            "last_times": presenter.last_times(schedule, jobs),
            "is_declared": schedule.id in presenter.declared_in_code(self.alias),
            "arguments": head(redacted.text) if self.may.data else None,
            "hidden": redacted.hidden,
            "rows": job_rows(jobs, self),
            "search_url": self.links.url(
                "job_changelist", None, jid=f"{schedule.id}{_star(schedule.every)}"
            ),
            "deeds": deeds(models.Recurring, self.name),
        }


class RecurringText(Page):
    """What the jobs of one carry, on a page of its own."""

    template = "schedule_text.html"
    permission = permissions.DATA

    def content(self) -> dict[str, Any]:
        """Return the text."""
        schedule = found(self)
        redacted = redact(schedule.klass, schedule.data, self.alias)
        return {"text": head(redacted.text, WHOLE)}

    def crumbs(self) -> list[Crumb]:
        """Return the way to the page."""
        url = self.links.url("recurring_change", self.name)
        return [*super().crumbs()[:-1], Crumb(self.name, url), Crumb(_("Arguments"))]


def found(view: View) -> Schedule:
    """Return the schedule that a URL names. Raises Missing."""
    schedule = view.client.schedule_get(view.name)
    if schedule is None:
        raise Missing(
            _(
                "There is no recurring job of this id: it was removed, or never made. "
                "The list shows what the code declares and can be brought back."
            )
        )
    return schedule


def _star(every: float | None) -> str:
    return "@*" if every is None else "-*"


class RecurringAdmin(EntryAdmin):
    """The pages and actions of recurring jobs."""

    routes = (
        Route("", "changelist", Schedules),
        Route("<str:segment>/change/", "change", RecurringPage),
        Route("<str:segment>/text/", "text", RecurringText),
        *(
            Route(f"<str:segment>/{action.verb}/", action.verb, action)
            for action in (
                actions.RunNow,
                actions.Pause,
                actions.Resume,
                actions.Remove,
                actions.Reset,
                Edit,
            )
        ),
    )
