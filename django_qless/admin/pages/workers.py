"""Workers: who is there, what each does, and what can be asked of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.translation import gettext as _

from django_qless.admin.actions import workers as actions
from django_qless.admin.listing import listing
from django_qless.admin.presenters.job import job_rows
from django_qless.admin.presenters.worker import worker_row, worker_rows
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Missing, Page
from django_qless.core.commands.operations import WorkerCounts

if TYPE_CHECKING:
    from django_qless.admin.actions.base import Action

WORKERS = 50
"""Shown on a page."""
JOBS = 50
"""Held jobs that a worker's page shows."""


class Button(NamedTuple):
    """What parts/button.html shows."""

    url: str
    label: str
    danger: bool


class PageOfWorkers(Page):
    """Has buttons."""

    def button(self, action: type[Action], name: str | None = None) -> Button:
        """Return the button of an action on one worker, or on all."""
        url = self.links.url(f"worker_{action.verb}", name)
        return Button(url, str(action.label), action.danger)


class Workers(PageOfWorkers):
    """All workers, the latest sign of life first."""

    template = "workers.html"

    def content(self) -> dict[str, Any]:
        """Return what is shown."""
        offset = self.number("offset")
        found = self.client.worker_views(offset, WORKERS)
        following = offset + WORKERS
        rows = worker_rows(found.workers, self)
        return {
            "workers": listing(
                self,
                rows,
                offset=offset,
                total=found.total,
                following=following if following < found.total else None,
            ),
            "silent": sum(not row.alive for row in rows),
            "buttons": [self.button(each) for each in actions.OF_ALL],
        }


class WorkerPage(PageOfWorkers):
    """One worker: what it says of itself, the jobs that it holds, its last dump."""

    template = "worker.html"

    def content(self) -> dict[str, Any]:
        """Return what is shown."""
        stacks = self.client.stacks(self.name)
        counts = self.counts(stacks)
        jobs = self.client.briefs([("worker", self.name, 0, JOBS)])
        jobs.sort(key=lambda job: job.since)
        row = worker_row(counts, (), self)
        return {
            "worker": row,
            "jobs": job_rows(jobs, self),
            "more_jobs": max(0, row.held - len(jobs)),
            "stacks": stacks if self.may.workers else None,
            "buttons": [self.button(each, self.name) for each in actions.of(row)],
        }

    def counts(self, stacks: str | None) -> WorkerCounts:
        """Return what the server knows of the worker; raise Missing if it does not.

        One that has ended is known as long as it holds jobs, or its stacks are kept.
        """
        for each in self.client.workers():
            if each.name == self.name:
                return each
        held = self.client.worker_jobs(self.name)
        if held.jobs or held.stalled or stacks:
            return WorkerCounts(self.name, len(held.jobs), len(held.stalled), 0, None)
        raise Missing(
            _(
                "There is no worker %s: it has ended, or it was silent for so long that "
                "it is forgotten."
            )
            % self.name
        )


class WorkerAdmin(EntryAdmin):
    """Pages of workers, and what can be asked of them."""

    routes = (
        Route("", "changelist", Workers),
        *(Route(f"{each.verb}/", each.verb, each) for each in actions.OF_ALL),
        Route("<str:segment>/change/", "change", WorkerPage),
        *(
            Route(f"<str:segment>/{each.verb}/", each.verb, each)
            for each in actions.ALL
        ),
    )
