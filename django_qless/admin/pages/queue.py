"""One queue: what happened in it, its limits, and its jobs by state."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin import charts
from django_qless.admin.actions.queues import LimitsForm, limits_of, queue_of
from django_qless.admin.bulk import bulk_url, empty_url
from django_qless.admin.listing import listing
from django_qless.admin.presenters.days import day_of, days
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.presenters.operators import deeds
from django_qless.admin.presenters.queues import (
    ORDERS,
    SHOWN,
    failed_url,
    in_states,
    is_empty,
    pause_in_words,
)
from django_qless.admin.presenters.schedule import schedule_rows
from django_qless.admin.views import Page
from django_qless.worker.serving import Coverage

if TYPE_CHECKING:
    from django_qless.core.commands.queues import QueueCounts
    from django_qless.core.views import ListKind

COUNT = 50
DEEDS = 5

#: Columns that say nothing new in the list of a state.
HIDDEN = {
    "running": "queue",
    "stalled": "queue state",
}


class QueuePage(Page):
    """A queue. The tab picks what is shown below what holds for all of it."""

    @cached_property
    def tab(self) -> str:
        """The state whose jobs are listed; "" for statistics and limits."""
        tab = self.request.GET.get("tab", "")
        return tab if tab in SHOWN else ""

    # Of other pages it is known with the class; here the request picks it.
    @property
    def template(self) -> str:  # type: ignore[override]
        """The template of the tab."""
        name = self.tab if self.tab in ("", "recurring") else "jobs"
        return f"queue/{name or 'statistics'}.html"

    @cached_property
    def counts(self) -> QueueCounts:
        """How many jobs there are in each state; raises Missing."""
        return queue_of(self)

    def content(self) -> dict[str, Any]:
        """Return what holds for the queue, and what the tab shows."""
        counts = self.counts
        lag = self.client.survey([self.name])[0].lag
        workers = Coverage(self.client.workers(), self.now)
        failed = self.client.failed_of([self.name])[0]
        tabs = {
            "": self.statistics,
            "recurring": self.recurring,
        }
        return {
            "counts": counts,
            "lag": lag,
            "failed": failed,
            "failed_url": failed_url(self.name, self.links),
            "states": in_states(counts, self.links),
            "pause_words": pause_in_words(counts),
            "is_served": workers.serves(self.name),
            "is_empty": is_empty(counts),
            "empty_url": empty_url(self.links, self.name, "waiting", back=self.here),
            "tab": self.tab,
            **tabs.get(self.tab, self.jobs)(),
        }

    def statistics(self) -> dict[str, Any]:
        """Return what was done lately, the days, and the limits."""
        chosen = day_of(self.request.GET.get("day", ""), self.now)
        found = days(self.client, self.name, chosen, self.now, self.links)
        limits = limits_of(self)
        stats = found.chosen.stats
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
            "form": LimitsForm(limits),
            "deeds": deeds(models.Queue, self.name, DEEDS),
        }

    def jobs(self) -> dict[str, Any]:
        """Return a part of the jobs in the tab's state."""
        # A text of the query that `tab` has found among the kinds of lists.
        state: ListKind = self.tab  # type: ignore[assignment]
        total, offset = getattr(self.counts, state), self.number("offset")
        found = self.client.placed_briefs([(state, self.name, offset, COUNT)])
        rows = job_rows([brief for brief in found if brief is not None], self)
        end = offset + len(found)
        return {
            "listing": listing(
                self,
                rows,
                offset=offset,
                total=max(total, end) if found else total,
                following=end if found and end < total else None,
            ),
            "order": ORDERS[state],
            "hidden": HIDDEN.get(state, "queue state worker"),
            "total": total,
            "cancel_url": empty_url(self.links, self.name, state, back=self.here),
            "bulk": [
                (
                    label,
                    bulk_url(
                        self.links, verb, back=self.here, queue=self.name, state=state
                    ),
                )
                for verb, label in (
                    ("move", _("Move all")),
                    ("priority", _("Change priority of all")),
                )
            ],
        }

    def recurring(self) -> dict[str, Any]:
        """Return a part of the schedules that put jobs into the queue."""
        offset = self.number("offset")
        found = self.client.schedules_in(self.name, offset, COUNT)
        end = offset + len(found.schedules)
        return {
            "listing": listing(
                self,
                schedule_rows(found.schedules, self),
                offset=offset,
                total=found.total,
                following=end if found.schedules and end < found.total else None,
            ),
            "order": ORDERS["recurring"],
        }
