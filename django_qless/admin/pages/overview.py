"""The overview: the state of an alias, and what needs attention first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_qless.admin import formatting
from django_qless.admin.alias_status import AliasStatus, Pending, alias_monitor
from django_qless.admin.components import charts
from django_qless.admin.components.queue_table import QueueRow
from django_qless.admin.components.server import server_facts
from django_qless.admin.components.worker_table import worker_row
from django_qless.admin.links import Links
from django_qless.admin.listing import Listing, listing
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page
from django_qless.conf.connections import connections
from django_qless.core import BadArgument, QlessError
from django_qless.operations.workers import ServedQueues
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from django.http import HttpResponseBase

    from django_qless.core.commands.operations import WorkerCounts
    from django_qless.core.commands.queues import DayCounters, QueueCounts

QUEUES = 40
"""Queues on a page: with the longest names it stays within its size."""
GROUPS, TICKS, SILENT = 5, 5, 5
"""Failure groups, schedules and silent workers that are named."""
STATES = ("waiting", "running", "stalled", "scheduled", "depends", "recurring")
"""The columns of the table of queues."""


@dataclass(frozen=True)
class Totals:
    """The sums of all queues."""

    queues: int
    lag: float
    """The greatest lag."""
    slowest: str
    """The queue with the greatest lag, "" if there is none."""
    waiting: int
    running: int
    stalled: int
    scheduled: int
    depends: int
    recurring: int
    retried: int
    """Attempts that failed today and run again."""
    lost: int
    """Locks that were lost today."""

    @property
    def cells(self) -> list[int]:
        """The numbers of the states and of today, by column."""
        return [getattr(self, name) for name in (*STATES, "retried", "lost")]


class Overview(Page):
    """All queues of an alias, its workers, failures and schedules, and its server."""

    template = "overview.html"

    def answer(self) -> HttpResponseBase:
        """Return the page; for an alias that is down, with the state of the others."""
        try:
            return super().answer()
        except BadArgument:
            raise
        except (QlessError, ImproperlyConfigured) as error:
            down = AliasStatus(answers=False, problem=str(error))
            rows = self.alias_rows(alias_monitor.start(self.others), down)
            content = {
                "now": time.time(),
                "problem": str(error),
                "alias_rows": rows,
            }
        return self.show(content)

    def content(self) -> dict[str, Any]:
        """Return all parts, with 13 calls to the server, whatever its size."""
        pending = alias_monitor.start(self.others)
        client, now = self.client, self.now
        counts = client.queues()
        names = [each.name for each in counts]
        lags = client.lag(names) if counts else []
        today = client.stats_counters(now, names) if counts else []
        workers = client.workers()
        failures = client.failure_groups(0, GROUPS)
        sums = totals(counts, lags, today, client.schedule_list(0, 1).total)
        return {
            "totals": sums,
            "failures": failures,
            "failed": [
                (each, self.links.bulk("retry", back=self.here, group=each.name))
                for each in failures.groups
            ],
            "queues": self.queues(
                by_urgency(counts, lags),
                dict(zip(names, today, strict=True)),
                ServedQueues(workers, now),
            ),
            "charts": charts.recent(client, None, now),
            "workers": self.workers(workers),
            "ticks": self.ticks(),
            "server": server_facts(client, now),
            "alias_rows": self.alias_rows(
                pending,
                AliasStatus(
                    waiting=sums.waiting,
                    running=sums.running,
                    stalled=sums.stalled,
                    failed=failures.total_jobs,
                    queues=sums.queues,
                    lag=sums.lag,
                ),
            ),
        }

    def queues(
        self,
        found: Sequence[tuple[QueueCounts, float]],
        today: dict[str, DayCounters],
        coverage: ServedQueues,
    ) -> Listing:
        """Return a part of the queues: the rows, and the cells of each."""
        part = found[self.offset : self.offset + QUEUES]
        names = [counts.name for counts, _ in part]
        failed = self.client.failed_of(names) if part else []
        # A queue's own count has only intervals that are not paused.
        recurring = self.client.recurring_of(names) if part else []
        rows = []
        for (counts, lag), failures, schedules in zip(
            part, failed, recurring, strict=True
        ):
            row = QueueRow(
                counts._replace(recurring=schedules),
                lag=lag,
                failed=failures,
                is_served=coverage.serves(counts.name),
                links=self.links,
            )
            day, url = today[counts.name], row.url
            cells = [
                *((each.number, each.url) for each in row.in_states(STATES)),
                *((day.retried, url), (day.retries, url), (failures, row.failed_url)),
            ]
            rows.append((row, cells))
        return listing(self, rows, len(found))

    def workers(self, found: list[WorkerCounts]) -> dict[str, Any]:
        """Return the number of workers in each state, and the silent ones."""
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

    def ticks(self) -> list[dict[str, Any]]:
        """Return the schedules that tick next."""
        return [
            {
                "name": schedule.name or schedule.id,
                "words": RecurringHandle(self.alias, schedule.id, schedule).words,
                "url": self.links.url("recurring_change", schedule.id),
                "at": schedule.next,
                "wait": formatting.span(schedule.next - self.now)
                if schedule.next > self.now
                else "",
            }
            for schedule in self.client.next_schedules(TICKS)
            if schedule.next is not None
        ]

    def alias_rows(self, pending: Pending, own: AliasStatus) -> list[dict[str, Any]]:
        """Return all aliases, if there are several; `own` is the status of this one."""
        if not self.others:
            return []
        statuses = {**alias_monitor.collect(pending), self.alias: own}
        return [
            {
                "name": alias,
                "url": Links(self.links.site, alias).url("overview_changelist"),
                "is_current": alias == self.alias,
                "status": statuses[alias],
            }
            for alias in connections
        ]

    @property
    def others(self) -> list[str]:
        """All aliases but this one."""
        return [alias for alias in connections if alias != self.alias]


def totals(
    counts: Sequence[QueueCounts],
    lags: Sequence[float],
    today: Sequence[DayCounters],
    recurring: int,
) -> Totals:
    """Return the sums of these queues; of their lags, the greatest."""
    slowest, lag = max(
        zip((each.name for each in counts), lags, strict=True),
        default=("", 0.0),
        key=lambda pair: pair[1],
    )
    sums = {state: sum(getattr(each, state) for each in counts) for state in STATES}
    return Totals(
        queues=len(counts),
        lag=lag,
        slowest=slowest if lag else "",
        **{**sums, "recurring": recurring},
        retried=sum(each.retried for each in today),
        lost=sum(each.retries for each in today),
    )


def by_urgency(
    counts: Iterable[QueueCounts], lags: Iterable[float]
) -> list[tuple[QueueCounts, float]]:
    """Return queues with their lags: the greatest lag, then the most work, first."""
    return sorted(
        zip(counts, lags, strict=True),
        key=lambda pair: (
            -pair[1],
            -(pair[0].waiting + pair[0].running + pair[0].stalled),
            pair[0].name,
        ),
    )


class OverviewAdmin(EntryAdmin):
    """The page of the overview."""

    routes = (Route("", "changelist", Overview),)
