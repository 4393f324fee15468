"""The page of a job: its state, history, data, links and actions."""

from __future__ import annotations

from typing import Any

from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from django_qless import models
from django_qless.admin import formatting, permissions
from django_qless.admin.actions import jobs as actions
from django_qless.admin.actions.job_dependencies import CancelJob, UndependJob
from django_qless.admin.actions.job_edit import EditJob
from django_qless.admin.components import history, payload
from django_qless.admin.components.audit_log import audit_entries
from django_qless.admin.components.held_back import held_back_text
from django_qless.admin.components.job_charts import graph, timeline
from django_qless.admin.components.job_table import JobRow, job_row, job_rows
from django_qless.admin.components.traceback import trace
from django_qless.admin.formatting import WHOLE, head, tail
from django_qless.admin.views import Crumb, Missing, Page
from django_qless.core import Job, JobView
from django_qless.exceptions import InvalidOption
from django_qless.job_types.options import DEFAULTS, TRAVELLING
from django_qless.job_types.redaction import may_show_output, may_show_result, redact
from django_qless.job_types.registry import options_of

LINKS = 20
"""Jobs of each kind that the page has in its tables."""
ENTRIES = 100
"""Entries of the history that the page shows: the first and the newest."""

BY_STATE: dict[str, tuple[type[actions.JobAction], ...]] = {
    "waiting": (actions.MoveJob, actions.ChangePriority, EditJob),
    "scheduled": (actions.RunJob, actions.MoveJob, actions.ChangePriority, EditJob),
    "depends": (UndependJob, actions.MoveJob, actions.ChangePriority, EditJob),
    "running": (actions.TimeOutJob, actions.MoveJob, EditJob),
    "stalled": (actions.TimeOutJob, actions.MoveJob, EditJob),
    "failed": (actions.RetryJob, EditJob, actions.MoveJob),
    "complete": (EditJob,),
    "canceled": (EditJob,),
}
"""The actions that a job's page offers, by the job's state."""
AT_ONCE = (actions.RetryJob, actions.RunJob, actions.TrackJob, actions.UntrackJob)
"""Actions that need no confirmation: a click does them."""


def travelling_options(job: Job) -> list[tuple[str, Any]]:
    """Return the options of a job that are not the defaults."""
    try:
        options = options_of(job.klass, job.context)
    except InvalidOption:
        return []
    given = ((name, getattr(options, name)) for name in TRAVELLING)
    return [
        (name, getattr(value, "__qualname__", value))
        for name, value in given
        if value != getattr(DEFAULTS, name)
    ]


class _JobPage(Page):
    @cached_property
    def found(self) -> JobView[Job]:
        """The content of the job's page. Raises Missing."""
        return actions.view_of(self, links=LINKS, history=ENTRIES)


class JobPage(_JobPage):
    """The page of a job."""

    template = "job.html"

    def content(self) -> dict[str, Any]:
        """Return what the server, the project and the audit log know of the job."""
        found = self.found
        job, brief = found.job, found.brief
        attempts = history.attempts_of(found, self.now)
        own = job_row(brief, self)
        return {
            "job": job,
            "brief": brief,
            "held_back_by": held_back_text(job.limits, shows_keys=self.may.data),
            "own": own,
            "entity": payload.entity_of(job.data),
            "canceled": self.canceled(),
            "buttons": self.buttons(),
            "spent": history.spent(found, attempts),
            "timeline": timeline(attempts.phases),
            "attempts": history.attempt_rows(
                found, attempts, self.links, with_messages=self.may.data
            ),
            "events": history.events(found, self.links, with_logs=self.may.data),
            "history_total": found.history_total,
            "options": travelling_options(job),
            "tags": [
                (
                    tag,
                    self.links.url("tag_change", tag),
                    self.links.url("job_untag", job.jid, tag=tag),
                )
                for tag in job.tags
            ],
            "audit_log": audit_entries(models.Job, job.jid),
            "run": found.detached,
            "run_is_hidden": not may_show_output(job.klass, job.data),
            "may_undepend": self.may.jobs and brief.state == "depends",
            **self.linked(own),
            **(self.data() if self.may.data else {}),
        }

    def buttons(self) -> list[dict[str, Any]]:
        """Return the actions that this user may do to the job in its state."""
        if not self.may.jobs:
            return []
        brief, canceled = self.found.brief, self.found.job.canceled
        track = actions.UntrackJob if brief.tracked else actions.TrackJob
        offered: list[type[actions.JobAction]] = [*BY_STATE.get(brief.state, ())]
        if brief.state != "canceled":
            offered += [actions.TagJob, track]
        elif brief.tracked:
            offered.append(track)
        if not brief.expires and actions.TimeOutJob in offered:
            offered.remove(actions.TimeOutJob)  # It was taken away already.
        if payload.entity_of(self.found.job.data):
            # Its payloads are pushed and changed on the page of the entity.
            offered = [action for action in offered if action.is_of_entities]
        elif not self.may.data or (canceled and canceled.left_out):
            offered.remove(EditJob)
        if brief.state not in ("complete", "canceled"):
            offered.append(CancelJob)  # At the end, away from the rest.
        return [
            {
                "label": action.label,
                "url": self.links.url(f"job_{action.verb}", brief.jid),
                "at_once": action in AT_ONCE,
                "danger": action.danger,
            }
            for action in offered
        ]

    def canceled(self) -> dict[str, str] | None:
        """Return the state and the links in the note about a canceled job."""
        canceled = self.found.job.canceled
        if canceled is None:
            return None
        by, worker = canceled.by, canceled.worker
        return {
            "was": formatting.state(canceled.was),
            "by_url": self.links.url("job_change", by) if by else "",
            "worker_url": self.links.url("worker_change", worker) if worker else "",
        }

    def linked(self, own: JobRow) -> dict[str, Any]:
        """Return the jobs linked to this one, as a graph and as tables."""
        found = self.found
        # `needs` has all dependencies, also completed ones; but other clients may add
        # dependencies without it.
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
        """Return the data for users with the permission to view it."""
        found = self.found
        job = found.job
        content: dict[str, Any] = {
            "arguments": payload.arguments(job, self),
            "context": head(payload.pretty_value(payload.readable_context(job.context)))
            if job.context
            else None,
            "result": payload.result(job, found.result, found.result_ttl),
        }
        if job.failure is not None:
            # The end of a traceback tells most.
            message = tail(job.failure.message)
            content["message"] = message
            content["trace"] = trace(message.text)
        return content


class JobText(_JobPage):
    """The page of one of a job's long texts."""

    template = "job_text.html"
    permission = permissions.DATA

    def content(self) -> dict[str, Any]:
        """Return the text that the query names."""
        job = self.found.job
        part = self.request.GET.get("part", "")
        if part == "arguments":
            title = _("Arguments")
            text = redact(job.klass, job.data).text
        elif part == "result" and self.found.result is not None:
            title = _("Result")
            if not may_show_result(job.klass, job.data):
                raise Missing(_("The result is sensitive and hidden from all users."))
            text = payload.pretty(payload.readable(self.found.result))
        elif part == "failure" and job.failure is not None:
            title, text = _("Failure"), job.failure.message
        else:
            raise Missing(_("The job has no such text."))
        return {"part": title, "text": head(text, WHOLE)}

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs."""
        job = Crumb(self.name, self.links.url("job_change", self.name))
        return [*super().crumbs()[:-1], job, Crumb(_("Text"))]
