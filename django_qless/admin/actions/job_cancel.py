"""Cancelling a job, alone or with all that wait for it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_qless.admin import words
from django_qless.admin.actions.jobs import JobAction, no_job
from django_qless.admin.listing import number
from django_qless.admin.presenters.job import is_held
from django_qless.admin.views import Missing
from django_qless.core import WrongState

MOST = 100
"""Jobs whose dependents are looked up: what hangs on more is no work for one click."""


class CancelForm(forms.Form):
    """Whether others go as well."""

    dependents = forms.BooleanField(
        label=gettext_lazy("Cancel the jobs that wait for it, too"), required=False
    )


class CancelJob(JobAction):
    """Removes a job, also while it runs."""

    verb = "cancel"
    label = gettext_lazy("Cancel")
    confirm = gettext_lazy("Cancel the job")
    danger = True
    is_done = False

    @cached_property
    def waiting(self) -> int:
        """How many jobs wait for this one. Raises Missing if there is none such."""
        view = self.client.job_view(self.name, links=0, history=1)
        if view is None:
            raise Missing(no_job(self.name))
        return view.dependents_total

    def question(self) -> str:
        """Return what follows from it."""
        text = _(
            "Cancel %(klass)s? Its state is “%(state)s”. It is removed; what it was is "
            "remembered for a while."
        ) % {
            "klass": self.brief.klass,
            "state": words.state(self.brief.state),
        }
        if is_held(self.brief):
            text += " " + _("Its worker is told to stop working on it.")
        if self.waiting:
            text += " " + ngettext(
                "%s job waits for it.", "%s jobs wait for it.", self.waiting
            ) % number(self.waiting)
        return text

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return a form that asks about others only if there are any."""
        form = CancelForm(*args, **options)
        if not self.waiting:
            del form.fields["dependents"]
        return form

    def act(self, fields: dict[str, Any]) -> str:
        """Cancel it."""
        brief = self.brief
        if brief.state == "complete":
            raise WrongState(_("The job is complete: it expires by itself"))
        if brief.state == "canceled":
            raise WrongState(_("The job was canceled before"))
        jids = [self.name]
        if fields.get("dependents"):
            jids = self._with_dependents()
        self.client.cancel(jids)
        self.is_done = True
        text = self.done(_("Job %(klass)s (%(jid)s) is cancelled."))
        if len(jids) > 1:
            text += " " + ngettext(
                "%s job that waited for it is cancelled, too.",
                "%s jobs that waited for it are cancelled, too.",
                len(jids) - 1,
            ) % number(len(jids) - 1)
        return text

    def next_url(self) -> str:
        """Return where to go: the job is gone, so to the others and not to its page."""
        url = super().next_url()
        own = self.links.url("job_change", self.name).partition("?")[0]
        if self.is_done and url.partition("?")[0] == own:
            return self.links.url("job_changelist")
        return url

    def _with_dependents(self) -> list[str]:
        """Return the job and all that wait for it, directly or through others."""
        found = {self.name: None}
        todo = [self.name]
        while todo:
            view = self.client.job_view(todo.pop(), links=250, history=1)
            if view is None:
                continue
            new = [each.jid for each in view.dependents if each.jid not in found]
            found.update(dict.fromkeys(new))
            todo += new
            if len(found) > MOST or view.dependents_total > len(view.dependents):
                raise WrongState(
                    _(
                        "More than %d jobs wait for it: cancel them first, by their queue"
                    )
                    % MOST
                )
        return list(found)
