"""What can be done with the list of tracked jobs: put a job on it, take one off."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.core import JobNotFound


class TrackForm(forms.Form):
    """Which job."""

    jid = forms.CharField(label=gettext_lazy("Id of the job"), max_length=1000)


class Track(Action):
    """Tracks a job by its id."""

    permission = permissions.JOBS
    verb = "track"
    label = gettext_lazy("Track")
    form_class = TrackForm
    jid = ""

    def question(self) -> str:
        """Return what follows from it."""
        return _("What happens to a tracked job is published, and it is listed here.")

    def initial(self) -> dict[str, Any]:
        """Return the id that a link may give."""
        return {"jid": self.request.GET.get("jid", "")}

    def act(self, fields: dict[str, Any]) -> str:
        """Track it; raises JobNotFound."""
        self.jid = fields["jid"]
        if self.client.track(self.jid):
            return _("Tracks the job %s.") % self.jid
        return _("The job %s was tracked already.") % self.jid

    def log(self, done: str, name: str | None = None, model: Any = None) -> None:
        """Leave the entry at the job."""
        super().log(done, self.jid, models.Job)


class Untrack(Action):
    """Takes a job off the list; also one that is gone."""

    permission = permissions.JOBS
    verb = "untrack"
    label = gettext_lazy("Stop tracking")

    def question(self) -> str:
        """Return what follows from it."""
        return _("Stop tracking the job %s? The job itself stays as it is.") % self.name

    def act(self, fields: dict[str, Any]) -> str:
        """Untrack it; raises JobNotFound for one that is neither there nor tracked."""
        for words in self.client.untrack_each([self.name]).refused.values():
            raise JobNotFound(words)
        return _("Stopped tracking the job %s.") % self.name

    def usual_next(self) -> str:
        """Return the list."""
        return self.links.url("tracked_changelist")

    def log(self, done: str, name: str | None = None, model: Any = None) -> None:
        """Leave the entry at the job."""
        super().log(done, self.name, models.Job)
