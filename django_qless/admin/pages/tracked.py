"""Tracked jobs: the list, and its actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.components.job_table import job_row
from django_qless.admin.listing import listing
from django_qless.admin.site import Route
from django_qless.admin.views import Page
from django_qless.core import JobNotFound

if TYPE_CHECKING:
    from django.db.models import Model

ROWS = 50


class TrackForm(forms.Form):
    """The job to track."""

    jid = forms.CharField(label=_("Id of the job"), max_length=1000)


class TrackedJobs(Page):
    """The page of tracked jobs, the latest first, and of those that are gone."""

    template = "tracked.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the tracked jobs."""
        found = self.client.tracked_jids(self.offset, ROWS)
        briefs = {brief.jid: brief for brief in self.client.brief(found.jids)}
        rows = [job_row(briefs[jid], self) for jid in found.jids if jid in briefs]
        return {
            "listing": listing(self, rows, found.total, read=len(found.jids)),
            "gone": [jid for jid in found.jids if jid not in briefs],
            "form": TrackForm(),
        }


class Track(Action):
    """Tracks a job by its id."""

    permission = permissions.JOBS
    verb = "track"
    label = _("Track")
    form_class = TrackForm
    prompt = _("The events of a tracked job are published, and it is listed here.")
    success = _("Now tracking the job %(jid)s.")
    unchanged = _("The job %(jid)s was already tracked.")
    jid = ""

    def initial(self) -> dict[str, Any]:
        """Return the id in the URL."""
        return {"jid": self.request.GET.get("jid", "")}

    def perform(self, fields: dict[str, Any]) -> bool:
        """Track it; raises JobNotFound."""
        self.jid = fields["jid"]
        return self.client.track(self.jid)

    @property
    def log_subject(self) -> tuple[type[Model], str]:
        """The job."""
        return models.Job, self.jid


class Untrack(Action):
    """Stops tracking a job, also one that is gone."""

    permission = permissions.JOBS
    verb = "untrack"
    label = _("Stop tracking")
    prompt = _("Stop tracking the job %(name)s? The job itself is not changed.")
    success = _("Stopped tracking the job %(name)s.")
    back_to_list = True

    def perform(self, fields: dict[str, Any]) -> None:
        """Untrack it; raises JobNotFound for one that neither exists nor is tracked."""
        for words in self.client.untrack_each([self.name]).refused.values():
            raise JobNotFound(words)

    @property
    def log_subject(self) -> tuple[type[Model], str]:
        """The job."""
        return models.Job, self.name


ROUTES = (
    Route("", "changelist", TrackedJobs),
    Route.of(Track, prefix=""),
    Route.of(Untrack),
)
