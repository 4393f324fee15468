"""The overview: the state of an alias, and what needs attention first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_qless.admin import formatting
from django_qless.admin.components import charts
from django_qless.admin.components.entity_table import EntityQueue
from django_qless.admin.components.queue_table import queue_rows
from django_qless.admin.components.server import server_facts
from django_qless.admin.components.worker_table import worker_row
from django_qless.admin.listing import Listing, listing
from django_qless.admin.site import Route
from django_qless.admin.views import Page
from django_qless.core import BadArgument, QlessError
from django_qless.core.states import IN_QUEUE, QUEUE_STATES
from django_qless.operations.status import QueueStatus, Totals, read_queues
from django_qless.operations.workers import ServedQueues
from django_qless.outbox.waiting import waiting
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from django.http import HttpResponseBase

    from django_qless.core.commands.operations import WorkerCounts

QUEUES = 40
"""Queues on a page: with the longest names it stays within its size."""
GROUPS, TICKS, SILENT, ENTITIES = 5, 5, 5, 5
"""Failure groups, schedules, silent workers and queues with entities that are named."""


class Overview(Page):
    """The page of an alias: queues, workers, failures, schedules and server."""

    template = "overview.html"

    def answer(self) -> HttpResponseBase:
        """Return the page, also of an alias that is down."""
        try:
            return super().answer()
        except BadArgument:
            raise
        except (QlessError, ImproperlyConfigured) as error:
            content = {
                "now": time.time(),
                "problem": str(error),
                "outboxes": outbox_rows(self.alias),
            }
        return self.show(content)

    def content(self) -> dict[str, Any]:
        """Return all parts, with 14 calls to the server at any size."""
        client, now = self.client, self.now
        queues = read_queues(client, now)
        totals = Totals.of(
            [each.counts for each in queues], [each.lag for each in queues]
        )
        recurring = client.schedule_list(0, 1).total
        workers = client.workers()
        failures = client.failure_groups(0, GROUPS)
        return {
            "totals": totals,
            "recurring": recurring,
            "total_cells": [
                *(getattr(totals, state) for state in IN_QUEUE),
                recurring,
                failures.total_jobs,
                sum(each.today.retried for each in queues),
                sum(each.today.retries for each in queues),
            ],
            "failures": failures,
            "failed": [
                (each, self.links.bulk("retry", back=self.here, group=each.name))
                for each in failures.groups
            ],
            "queues": self.queues(sorted(queues, key=urgency), workers),
            "entities": self.entities(),
            "charts": charts.recent(client, None, now),
            "workers": self.workers(workers),
            "ticks": self.ticks(),
            "server": server_facts(client, now),
            "outboxes": outbox_rows(self.alias),
        }

    def queues(
        self, found: Sequence[QueueStatus], workers: list[WorkerCounts]
    ) -> Listing:
        """Return a part of the queues: the rows, and the cells of each."""
        part = found[self.offset : self.offset + QUEUES]
        rows = queue_rows(
            self,
            [(each.counts, each.lag) for each in part],
            ServedQueues(workers, self.now),
        )
        cells = [
            [
                *((state.number, state.url) for state in row.in_states(QUEUE_STATES)),
                (row.failed, row.failed_url),
                (each.today.retried, row.url),
                (each.today.retries, row.url),
            ]
            for row, each in zip(rows, part, strict=True)
        ]
        return listing(self, list(zip(rows, cells, strict=True)), len(found))

    def entities(self) -> dict[str, Any]:
        """Return the queues with entities that lag most, and how many there are."""
        found = sorted(self.client.entity_counts(), key=lambda each: -each.lag)
        return {
            "rows": [EntityQueue(each, self.links) for each in found[:ENTITIES]],
            "total": len(found),
        }

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


def outbox_rows(alias: str) -> list[dict[str, Any]]:
    """Return what waits in each outbox: nothing where the app is not installed."""
    return [
        {
            "database": found.database,
            "entries": found.entries,
            "jobs": found.jobs,
            "oldest": formatting.span(found.oldest) if found.entries else "",
            "late": found.is_late,
            "error": str(found.error) if found.error else "",
        }
        for found in waiting(alias)
    ]


def urgency(queue: QueueStatus) -> tuple[float, int, str]:
    """Return a key for sorting: the greatest lag, then the most work, comes first."""
    counts = queue.counts
    return (
        -queue.lag,
        -(counts.waiting + counts.running + counts.stalled),
        counts.name,
    )


ROUTES = (Route("", "changelist", Overview),)
