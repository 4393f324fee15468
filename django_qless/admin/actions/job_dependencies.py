"""Actions on a job and those that depend on it: stop waiting, cancel."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin.actions.jobs import FromQuery, JobAction, view_of
from django_qless.admin.formatting import number
from django_qless.core import BadArgument, WrongState

MOST_CANCELED = 100
"""Jobs that are canceled together with the one that they wait for, at most."""


class UndependForm(forms.Form):
    """The dependency to remove; empty for all."""

    on = forms.CharField(label=_("Job id"), required=False, strip=False)


class UndependJob(FromQuery):
    """Removes one dependency of a job, or all."""

    verb = "undepend"
    label = _("Stop waiting")
    form_class = UndependForm
    field = "on"
    prompt = _(
        "Let %(klass)s stop waiting for this job? Without an id it stops waiting for all "
        "jobs. It may then run before they are complete."
    )

    def act(self, fields: dict[str, Any]) -> str:
        """Remove the dependency, or all."""
        other = fields["on"]
        if self.brief.state != "depends":
            raise WrongState(
                self.say(
                    _("The job does not wait for other jobs: its state is “%(state)s”")
                )
            )
        if other:
            waits_for = view_of(self, links=250).dependencies
            if not any(one.jid == other for one in waits_for):
                raise BadArgument(gettext("The job is not waiting for %r") % other)
        self.client.depends_off(self.name, [other] if other else None)
        if other:
            return self.say(
                _("Job %(klass)s no longer waits for %(other)s."), other=other
            )
        return self.say(_("Job %(klass)s no longer waits for other jobs."))


class CancelForm(forms.Form):
    """The choice to cancel the dependents as well."""

    dependents = forms.BooleanField(
        label=_("Also cancel the jobs that wait for it"), required=False
    )


class CancelJob(JobAction):
    """Removes a job, also while it runs; with its dependents, if wanted."""

    verb = "cancel"
    label = _("Cancel")
    confirm = _("Cancel the job")
    danger = True
    prompt = _(
        "Cancel %(klass)s? Its state is “%(state)s”. It is removed; a record of it is "
        "kept for a while."
    )
    held_note = _("Its worker stops working on it.")
    is_done = False

    @cached_property
    def waiting(self) -> int:
        """The number of jobs that wait for it. Raises Missing."""
        return view_of(self).dependents_total

    def question(self) -> str:
        """Return the question, with the number of dependents."""
        text = super().question()
        if self.waiting:
            text += " " + ngettext(
                "%s job waits for it.", "%s jobs wait for it.", self.waiting
            ) % number(self.waiting)
        return text

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return a form that asks about dependents only if there are any."""
        form = CancelForm(*args, **options)
        if not self.waiting:
            del form.fields["dependents"]
        return form

    def act(self, fields: dict[str, Any]) -> str:
        """Cancel it."""
        if self.brief.state == "complete":
            raise WrongState(gettext("The job is complete: it expires by itself"))
        if self.brief.state == "canceled":
            raise WrongState(gettext("The job is already canceled"))
        jids = self._with_dependents() if fields.get("dependents") else [self.name]
        self.client.cancel(jids)
        self.is_done = True
        text = self.say(_("Job %(klass)s (%(jid)s) is canceled."))
        if others := len(jids) - 1:
            text += " " + ngettext(
                "%s job that waited for it is canceled, too.",
                "%s jobs that waited for it are canceled, too.",
                others,
            ) % number(others)
        return text

    def next_url(self) -> str:
        """Return the redirect URL: the list in place of a canceled job's page."""
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
            if max(len(found) - 1, view.dependents_total) > MOST_CANCELED:
                raise WrongState(
                    gettext(
                        "More than %d jobs wait for it: cancel them first, on the page of their queue"
                    )
                    % MOST_CANCELED
                )
        return list(found)
