"""Workers: the list, the page of one, and the routes of their actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_qless.admin.actions import workers as actions
from django_qless.admin.components.job_table import job_rows
from django_qless.admin.components.worker_table import worker_row
from django_qless.admin.listing import listing
from django_qless.admin.site import Route
from django_qless.admin.views import Page
from django_qless.core.commands.operations import WorkerCounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.admin.actions.base import Action

ROWS = 50
JOBS = 50
"""Jobs that a worker's page shows."""


class _WorkerPage(Page):
    def buttons(self, found: Iterable[type[Action]]) -> list[dict[str, Any]]:
        """Return actions as buttons, on the page's worker or on all."""
        name = self.name or None
        return [
            {
                "url": self.links.url(f"worker_{action.verb}", name),
                "label": action.label,
                "danger": action.danger,
            }
            for action in found
        ]


class Workers(_WorkerPage):
    """The page of all workers, the latest heartbeat first."""

    template = "workers.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the workers."""
        found = self.client.worker_views(self.offset, ROWS)
        rows = [worker_row(each.counts, each.jobs, self) for each in found.workers]
        return {
            "workers": listing(self, rows, found.total),
            "buttons": self.buttons(actions.OF_ALL),
        }


class WorkerPage(_WorkerPage):
    """The page of a worker: its own report and its jobs."""

    template = "worker.html"

    def content(self) -> dict[str, Any]:
        """Return the details of the worker."""
        counts = self.counts()
        jobs = self.client.briefs([("worker", self.name, 0, JOBS)])
        jobs.sort(key=lambda job: job.since)
        row = worker_row(counts, (), self)
        return {
            "worker": row,
            "jobs": job_rows(jobs, self),
            "more_jobs": max(0, row.held - len(jobs)),
            "buttons": self.buttons(actions.offered(row)),
        }

    def counts(self) -> WorkerCounts:
        """Return the server's record of the worker.

        One that has ended has none: links to it are in the histories of jobs.
        """
        for each in self.client.workers():
            if each.name == self.name:
                return each
        held = self.client.worker_jobs(self.name)
        return WorkerCounts(self.name, len(held.jobs), len(held.stalled), 0, None)


ROUTES = (
    Route("", "changelist", Workers),
    *(Route.of(action, prefix="") for action in actions.OF_ALL),
    Route("<str:segment>/change/", "change", WorkerPage),
    *map(Route.of, actions.ALL),
)
