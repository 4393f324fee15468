"""The overview: what needs somebody, in the order in which it hurts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from django_qless.admin import charts, live
from django_qless.admin.bulk import bulk_url
from django_qless.admin.glances import Glance, Looks, glances
from django_qless.admin.listing import listing
from django_qless.admin.presenters.overview import (
    by_urgency,
    next_ticks,
    queue_rows,
    totals,
)
from django_qless.admin.presenters.server import server_facts
from django_qless.admin.presenters.worker import worker_row
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page
from django_qless.connections import connections
from django_qless.core import BadArgument, QlessError
from django_qless.worker.serving import Coverage

if TYPE_CHECKING:
    from django.http import HttpResponseBase

    from django_qless.core.commands.operations import WorkerCounts
    from django_qless.core.commands.queues import DayCounters

QUEUES = 40
"""Shown on a page: with the longest names that there can be it stays within its size."""
GROUPS, TICKS, SILENT = 5, 5, 5
"""Failure groups, schedules and silent workers that are named."""


class AliasRow(NamedTuple):
    """An alias in the table of all."""

    name: str
    url: str
    is_current: bool
    seen: Glance


class Overview(Page):
    """All queues of an alias, its workers, failures and schedules, and its server."""

    template = "overview.html"

    def answer(self) -> HttpResponseBase:
        """Return the page; of an alias that is down, with what the others do."""
        try:
            return super().answer()
        except BadArgument:
            raise
        except (QlessError, ImproperlyConfigured) as error:
            down = Glance(answers=False, problem=str(error))
            content = {
                "now": time.time(),
                "problem": str(error),
                "alias_rows": self.alias_rows(glances.send(self.others), down),
            }
        response = self.render(self.template, content)
        if live.is_asked_for(self.request):
            return live.parts_of(response)
        return response

    def content(self) -> dict[str, Any]:
        """Return what is shown. Asks the server 13 times, whatever there is."""
        looks = glances.send(self.others)
        client, now = self.client, self.now
        counts = client.queues()
        names = [each.name for each in counts]
        lags = client.lag(names) if counts else []
        today = client.stats_counters(now, names) if counts else []
        workers = client.workers()
        failures = client.failure_groups(0, GROUPS)
        recurring = client.schedule_list(0, 1).total
        together = replace(totals(counts, lags, today), recurring=recurring)
        return {
            "totals": together,
            "failures": failures,
            "failed": [
                (each, bulk_url(self.links, "retry", back=self.here, group=each.name))
                for each in failures.groups
            ],
            "queues": self.queues(
                by_urgency(counts, lags),
                dict(zip(names, today, strict=True)),
                Coverage(workers, now),
            ),
            "charts": charts.recent(client, None, now),
            "workers": self.workers(workers),
            "ticks": next_ticks(client.next_schedules(TICKS), self),
            "server": server_facts(client, now),
            "alias_rows": self.alias_rows(
                looks,
                Glance(
                    waiting=together.waiting,
                    running=together.running,
                    stalled=together.stalled,
                    failed=failures.total_jobs,
                    queues=together.queues,
                    lag=together.lag,
                ),
            ),
        }

    def queues(
        self, found: list[Any], today: dict[str, DayCounters], coverage: Coverage
    ) -> Any:
        """Return a part of the queues, with what has failed in them."""
        offset = self.number("offset")
        part = found[offset : offset + QUEUES]
        names = [each.name for each, _ in part]
        failed = self.client.failed_of(names) if part else []
        # A queue's own count knows of intervals only, and of none that is paused.
        recurring = self.client.recurring_of(names) if part else []
        part = [
            (counts._replace(recurring=number), lag)
            for (counts, lag), number in zip(part, recurring, strict=True)
        ]
        following = offset + QUEUES
        return listing(
            self,
            queue_rows(part, failed, today, coverage, self),
            offset=offset,
            total=len(found),
            following=following if following < len(found) else None,
        )

    def workers(self, found: list[WorkerCounts]) -> dict[str, Any]:
        """Return how many workers are in which state, and who is silent."""
        rows = [worker_row(each, (), self) for each in found]
        silent = [row for row in rows if not row.alive]
        return {
            "alive": len(rows) - len(silent),
            "quiet": sum(row.state == "quiet" for row in rows),
            "ending": sum(row.state in ("draining", "stopping") for row in rows),
            "late": sum(row.late for row in rows),
            "silent": len(silent),
            "silent_rows": silent[:SILENT],
            "more_silent": max(0, len(silent) - SILENT),
            "memory": sum(row.memory or 0 for row in rows if row.alive),
        }

    def alias_rows(self, looks: Looks, own: Glance) -> list[AliasRow]:
        """Return all aliases, if there are several; `own` is what is known of this one."""
        if not self.others:
            return []
        seen = {**glances.wait(looks), self.alias: own}
        return [
            AliasRow(
                alias,
                type(self.links)(self.links.site, alias).url("overview_changelist"),
                alias == self.alias,
                seen[alias],
            )
            for alias in connections
        ]

    @property
    def others(self) -> list[str]:
        """All aliases but this one."""
        return [alias for alias in connections if alias != self.alias]


class OverviewAdmin(EntryAdmin):
    """The overview has nothing but itself."""

    routes = (Route("", "changelist", Overview),)
