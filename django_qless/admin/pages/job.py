"""The page of a job: what it is, what happened to it, what can be done."""

from __future__ import annotations

from typing import Any

from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin import permissions, words
from django_qless.admin.actions.jobs import no_job
from django_qless.admin.charts.job_links import graph
from django_qless.admin.charts.timeline import timeline
from django_qless.admin.presenters import history, payload
from django_qless.admin.presenters.job import JobRow, job_row, job_rows
from django_qless.admin.presenters.job_buttons import buttons
from django_qless.admin.presenters.operators import deeds
from django_qless.admin.presenters.texts import WHOLE, head, tail
from django_qless.admin.presenters.trace import trace
from django_qless.admin.views import Crumb, Missing, Page
from django_qless.core import Job, JobView
from django_qless.redaction import may_show_result, redact

LINKS = 20
"""Jobs of each kind that the page has in its tables."""
ENTRIES = 100
"""Entries of the history that the page shows: the first and the newest."""


class OfJob(Page):
    """A page about one job."""

    @cached_property
    def found(self) -> JobView[Job]:
        """All that is known of the job. Raises Missing."""
        found = self.client.job_view(self.name, links=LINKS, history=ENTRIES)
        if found is None:
            raise Missing(no_job(self.name))
        return found


class JobPage(OfJob):
    """All that is known of a job."""

    template = "job.html"

    def content(self) -> dict[str, Any]:
        """Return what the core, the project and Django's log know of the job."""
        found = self.found
        job, brief = found.job, found.brief
        attempts = history.attempts_of(found, self.now)
        own = job_row(brief, self)
        return {
            "job": job,
            "brief": brief,
            "own": own,
            "canceled": self.canceled(),
            "buttons": buttons(
                brief, self, has_data=not (job.canceled and job.canceled.left_out)
            ),
            "spent": history.spent(found, attempts),
            "timeline": timeline(attempts.phases),
            "attempts": history.attempt_rows(
                found, attempts, self.links, with_messages=self.may.data
            ),
            "events": history.events(found, self.links, with_logs=self.may.data),
            "history_total": found.history_total,
            "tags": [
                (
                    tag,
                    self.links.url("tag_change", tag),
                    self.links.url("job_untag", job.jid, tag=tag),
                )
                for tag in job.tags
            ],
            "deeds": deeds(models.Job, job.jid),
            "may_undepend": self.may.jobs and brief.state == "depends",
            **self.linked(own),
            **(self.data() if self.may.data else {}),
        }

    def canceled(self) -> dict[str, str] | None:
        """Return what the page says of the end of a canceled job, beside the record."""
        canceled = self.found.job.canceled
        if canceled is None:
            return None
        by, worker = canceled.by, canceled.worker
        return {
            "was": words.state(canceled.was),
            "by_url": self.links.url("job_change", by) if by else "",
            "worker_url": self.links.url("worker_change", worker) if worker else "",
        }

    def linked(self, own: JobRow) -> dict[str, Any]:
        """Return the jobs that this one has to do with: as a drawing and as tables."""
        found = self.found
        # What it ever had to wait for has what it still waits for among it; but links
        # may also have been made by clients that keep no such list.
        before = {each.jid: each for each in (*found.dependencies, *found.needs)}
        still = {each.jid for each in found.dependencies}
        before_total = max(found.needs_total, found.dependencies_total, len(before))
        rows = job_rows(before.values(), self)
        after = job_rows(found.dependents, self)
        return {
            "before": rows,
            "before_total": before_total,
            "still": still,
            "still_total": found.dependencies_total,
            "undepend": [
                (row, self.links.url("job_undepend", self.name, on=row.brief.jid))
                for row in rows
                if row.brief.jid in still
            ],
            "after": after,
            "after_total": found.dependents_total,
            "spawned": job_rows(found.spawned, self),
            "spawned_total": found.spawned_total,
            "spawners": job_rows(found.spawners, self),
            "graph": graph(
                own,
                rows,
                after,
                before_total=before_total,
                after_total=found.dependents_total,
            ),
        }

    def data(self) -> dict[str, Any]:
        """Return what only who may view data is shown."""
        found = self.found
        job = found.job
        content: dict[str, Any] = {
            "arguments": payload.arguments(job, self),
            "context": head(payload.pretty_value(job.context)) if job.context else None,
            "result": payload.result(job, found.result, found.result_ttl, self),
        }
        if job.failure is not None:
            # The end of a traceback tells most.
            message = tail(job.failure.message)
            content["message"] = message
            content["trace"] = trace(message.text)
        return content


class JobText(OfJob):
    """One of a job's long texts, on a page of its own."""

    template = "job_text.html"
    permission = permissions.DATA

    def content(self) -> dict[str, Any]:
        """Return the text that the query names."""
        job = self.found.job
        part = self.request.GET.get("part", "")
        if part == "arguments":
            title = _("Arguments")
            text = redact(job.klass, job.data, self.alias).text
        elif part == "result" and self.found.result is not None:
            title = _("Result")
            if not may_show_result(job.klass, job.data, self.alias):
                raise Missing(_("The result is sensitive: nobody is shown it."))
            text = payload.pretty(self.found.result)
        elif part == "failure" and job.failure is not None:
            title, text = _("Failure"), job.failure.message
        else:
            raise Missing(_("The job has no such text."))
        return {"part": title, "text": head(text, WHOLE)}

    def crumbs(self) -> list[Crumb]:
        """Return the way to the page."""
        way = super().crumbs()
        job = Crumb(self.name, self.links.url("job_change", self.name))
        return [*way[:-1], job, Crumb(_("Text"))]
