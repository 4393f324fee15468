"""The page of a queue: statistics, limits, and its jobs by state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from django_qless import models
from django_qless.admin.actions.bulk_texts import BulkLink, bulk_links
from django_qless.admin.actions.queues import LimitsForm, limits_of, queue_of
from django_qless.admin.components import charts
from django_qless.admin.components.audit_log import audit_entries
from django_qless.admin.components.entity_table import EntityQueue
from django_qless.admin.components.held_back import HeldBackRow
from django_qless.admin.components.job_table import listed_jobs
from django_qless.admin.components.queue_table import ORDERS, SHOWN, QueueRow, is_empty
from django_qless.admin.components.schedule_table import schedule_rows
from django_qless.admin.formatting import number
from django_qless.admin.listing import listing
from django_qless.admin.views import Page
from django_qless.operations.workers import ServedQueues

if TYPE_CHECKING:
    from django_qless.admin.links import Links
    from django_qless.core import Client
    from django_qless.core.commands.queues import QueueCounts
    from django_qless.core.commands.statistics import DayStats
    from django_qless.core.states import ListKind

ROWS = 50
HIDDEN = {"running": "queue", "stalled": "queue state"}
"""Columns that would say nothing new in the list of a state."""

# One text for each state: its name alone does not make a sentence ("2 depends").
CANCEL_ALL: dict[str, Any] = {
    "waiting": ngettext_lazy(
        "Cancel %(number)s waiting job", "Cancel %(number)s waiting jobs", "n"
    ),
    "running": ngettext_lazy(
        "Cancel %(number)s running job", "Cancel %(number)s running jobs", "n"
    ),
    "stalled": ngettext_lazy(
        "Cancel %(number)s stalled job", "Cancel %(number)s stalled jobs", "n"
    ),
    "scheduled": ngettext_lazy(
        "Cancel %(number)s scheduled job", "Cancel %(number)s scheduled jobs", "n"
    ),
    "depends": ngettext_lazy(
        "Cancel %(number)s dependent job", "Cancel %(number)s dependent jobs", "n"
    ),
}
"""The link that cancels all jobs of a tab, by its state."""


class QueuePage(Page):
    """The page of a queue; the tab selects the part below the cards."""

    @cached_property
    def tab(self) -> str:
        """The state whose jobs are listed; "" for statistics and limits."""
        tab = self.request.GET.get("tab", "")
        return tab if tab in SHOWN else ""

    # Other pages declare it; here the request picks it.
    @property
    def template(self) -> str:  # type: ignore[override]
        """The template of the tab."""
        name = self.tab if self.tab in ("", "recurring") else "jobs"
        return f"queue/{name or 'statistics'}.html"

    @cached_property
    def counts(self) -> QueueCounts:
        """The number of jobs in each state. Raises Missing."""
        return queue_of(self)

    def content(self) -> dict[str, Any]:
        """Return the cards, and the content of the tab."""
        counts = self.counts
        row = QueueRow(
            counts,
            lag=self.client.survey([self.name])[0].lag,
            failed=self.client.failed_of([self.name])[0],
            is_served=ServedQueues(self.client.workers(), self.now).serves(self.name),
            links=self.links,
        )
        tabs = {"": self.statistics, "recurring": self.recurring}
        return {
            "counts": counts,
            "row": row,
            "is_empty": is_empty(counts),
            "empty_url": self.empty_url("waiting"),
            "entities": self.entities(),
            "tab": self.tab,
            **tabs.get(self.tab, self.jobs)(),
        }

    def entities(self) -> EntityQueue | None:
        """Return the queue with its entities; None if it has none."""
        counts = self.client.entity_counts([self.name])[0]
        return EntityQueue(counts, self.links) if counts.klass else None

    def empty_url(self, state: str) -> str:
        """Return the page that asks whether to cancel all jobs of a state."""
        return self.links.url("queue_empty", self.name, state=state, next=self.here)

    def statistics(self) -> dict[str, Any]:
        """Return the throughput, the days, the histograms and the limits."""
        chosen = day_of(self.request.GET.get("day", ""), self.now)
        found = days(self.client, self.name, chosen, self.now, self.links)
        stats = found.chosen.stats
        limits = limits_of(self)
        return {
            "recent": charts.recent(self.client, self.name, self.now),
            "days": found,
            "wait": charts.histogram(
                stats.wait, ident="wait", title=_("How long jobs waited")
            ),
            "run": charts.histogram(
                stats.run, ident="run", title=_("How long they ran")
            ),
            "limits": limits,
            **self.held_back(),
            "form": LimitsForm(limits),
            "audit_log": audit_entries(models.Queue, self.name, 5),
        }

    def held_back(self) -> dict[str, Any]:
        """Return the limits that hold back jobs of the queue."""
        found = self.client.limits(self.name)
        of_queue = [found.queue] if found.queue else []
        rows = [HeldBackRow(each, self.may.data) for each in [*of_queue, *found.limits]]
        return {"held_back": rows, "held_back_jobs": found.held_back}

    def jobs(self) -> dict[str, Any]:
        """Return a part of the jobs in the tab's state."""
        # `tab` has found it among the kinds of lists.
        state: ListKind = self.tab  # type: ignore[assignment]
        total = getattr(self.counts, state)
        changes = bulk_links(
            self, ("move", "priority"), back=self.here, queue=self.name, state=state
        )
        if self.may.queues:
            text = CANCEL_ALL[state] % {"n": total, "number": number(total)}
            changes.insert(0, BulkLink(text, self.empty_url(state), True))
        return {
            "listing": listed_jobs(self, state, self.name, total, ROWS),
            "order": ORDERS[state],
            "hidden": HIDDEN.get(state, "queue state worker"),
            "changes": changes if total else [],
        }

    def recurring(self) -> dict[str, Any]:
        """Return a part of the schedules that enqueue into the queue."""
        found = self.client.schedules_in(self.name, self.offset, ROWS)
        rows = schedule_rows(found.schedules, self)
        return {
            "listing": listing(self, rows, found.total),
            "order": ORDERS["recurring"],
        }


EPOCH = date(1970, 1, 1)

DAYS = 7
"""Days in the table: each takes a call."""


@dataclass(frozen=True)
class Day:
    """A day as a row of the table; days are in UTC."""

    date: date
    stats: DayStats
    url: str
    is_chosen: bool

    @property
    def has_only_summary(self) -> bool:
        """True if the histograms are gone, and only numbers and means are kept."""
        both = self.stats.wait, self.stats.run
        return any(each.count for each in both) and not any(
            any(each.histogram) for each in both
        )


@dataclass(frozen=True)
class Days:
    """Some days in a row, the latest first, and links to the others."""

    days: list[Day]
    chosen: Day
    earlier_url: str
    later_url: str


def day_of(text: str, now: float) -> date:
    """Return the day in a query, such as 2026-12-31, within the epoch and today."""
    today = datetime.fromtimestamp(now, UTC).date()
    try:
        return max(EPOCH, min(date.fromisoformat(text), today))
    except ValueError:
        return today


def days(client: Client, queue: str, chosen: date, now: float, links: Links) -> Days:
    """Ask for the days around the chosen one; seven calls."""
    today = day_of("", now)
    ago = (today - chosen).days
    newest = today - timedelta(days=ago - ago % DAYS)

    def url(day: date) -> str:
        text = None if day == today else day.isoformat()
        return links.url("queue_change", queue, day=text)

    number = min(DAYS, (newest - EPOCH).days + 1)
    shown = [newest - timedelta(days=each) for each in range(number)]
    found = [
        Day(
            day,
            client.stats(queue, (day - EPOCH).days * 86400),
            url(day),
            day == chosen,
        )
        for day in shown
    ]
    oldest = found[-1].date
    return Days(
        days=found,
        chosen=next(day for day in found if day.is_chosen),
        earlier_url=url(oldest - timedelta(days=1)) if oldest > EPOCH else "",
        later_url="" if newest == today else url(newest + timedelta(days=DAYS)),
    )
