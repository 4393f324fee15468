"""Editing what a job carries, and putting it again: itself, or a new one like it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import words
from django_qless.admin.actions.jobs import NAME_BYTES, JobAction, lines, no_job, whole
from django_qless.admin.presenters.payload import job_type_of
from django_qless.admin.presenters.texts import head
from django_qless.admin.views import Missing
from django_qless.arity import Arity
from django_qless.core import BadArgument, Job, WrongState
from django_qless.core.arguments import to_json
from django_qless.core.jid import new_jid
from django_qless.redaction import redact, restored
from django_qless.registry import Binding

if TYPE_CHECKING:
    from django.http import HttpResponseBase

EDITED = 200 * 1024
"""Bytes of HTML that data may take to be edited on a page; longer data stay as they are."""
ITSELF, NEW = "itself", "new"


class EditForm(forms.Form):
    """What the job is to be."""

    job_data = forms.CharField(
        label=gettext_lazy("Data"),
        widget=forms.Textarea(
            attrs={
                "rows": 16,
                "cols": 80,
                "spellcheck": "false",
                "class": "vLargeTextField qless-code",
            }
        ),
        help_text=gettext_lazy(
            "JSON. What is “[hidden]” stays as it is, unless you write something else."
        ),
    )
    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=NAME_BYTES)
    priority = forms.FloatField(label=gettext_lazy("Priority"))
    retries = forms.IntegerField(label=gettext_lazy("Retries"), min_value=0)
    delay = forms.FloatField(
        label=gettext_lazy("Delay in seconds"), min_value=0, required=False
    )
    tags = forms.CharField(
        label=gettext_lazy("Tags"),
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        help_text=gettext_lazy("One in each line."),
    )
    put = forms.ChoiceField(
        label=gettext_lazy("Put"),
        choices=[
            (ITSELF, gettext_lazy("this job again: it begins anew")),
            (NEW, gettext_lazy("a new job like this: this one stays as it is")),
        ],
    )


class EditJob(JobAction):
    """Puts a job again, with other data."""

    verb = "edit"
    label = gettext_lazy("Put again")
    form_class = EditForm
    put_jid = ""

    @cached_property
    def job(self) -> Job:
        """The job as it is now. Raises Missing."""
        # Not `get`, which names all jobs that wait for it, however many these are.
        view = self.client.job_view(self.name, links=0, history=1)
        if view is None:
            raise Missing(no_job(self.name))
        if view.job.canceled and view.job.canceled.left_out:
            raise Missing(
                _("The job was canceled. Its data was too long to be remembered.")
            )
        return view.job

    @cached_property
    def text(self) -> str:
        """Its data, pretty, without what is sensitive."""
        return redact(self.job.klass, self.job.data, self.alias).text

    @cached_property
    def is_too_long(self) -> bool:
        """Whether its data are too long to be edited on a page."""
        return head(self.text, EDITED).is_cut

    def answer(self) -> HttpResponseBase:
        """Ask, or do it: only who may see data may change it."""
        if not self.may.data:
            raise PermissionDenied
        return super().answer()

    def question(self) -> str:
        """Return what is asked."""
        text = _("Put %(klass)s again? Its state is “%(state)s”.") % {
            "klass": self.job.klass,
            "state": words.state(self.brief.state),
        }
        if self.is_too_long:
            text += " " + _(
                "Its data is too long to be edited here: it stays as it is."
            )
        return text

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form; of what a running job is put again, only a new one can be."""
        form = EditForm(*args, **options)
        if self.is_too_long:
            del form.fields["job_data"]
        return form

    def initial(self) -> dict[str, Any]:
        """Return what the job is now."""
        job = self.job
        return {
            "job_data": self.text,
            "queue": job.queue,
            "priority": job.priority,
            "retries": job.retries,
            "delay": 0,
            "tags": "\n".join(job.tags),
            "put": NEW if job.state in ("running", "complete") else ITSELF,
        }

    def act(self, fields: dict[str, Any]) -> str:
        """Put it, or one like it."""
        job = self.job
        data = self.data_of(fields)
        is_new = fields["put"] == NEW
        if not is_new and job.state == "running":
            raise WrongState(
                _("The job runs: time it out first, or put a new one like it")
            )
        jid = new_jid() if is_new else job.jid
        is_there = not is_new and not job.canceled
        put = self.client.requeue if is_there else self.client.put
        put(
            "",
            *(fields["queue"], jid, job.klass, data, fields["delay"] or 0),
            priority=whole(fields["priority"]),
            retries=fields["retries"],
            tags=lines(fields["tags"]),
            context=to_json(job.context) if job.context else None,
        )
        self.put_jid = jid
        said = {"klass": job.klass, "queue": fields["queue"], "jid": jid}
        if is_new:
            return _("A new %(klass)s is in queue %(queue)s: job %(jid)s.") % said
        return _("Job %(klass)s is in queue %(queue)s again.") % said

    def data_of(self, fields: dict[str, Any]) -> str:
        """Return the data to be put. Raises BadArgument."""
        job = self.job
        if "job_data" not in fields:
            return job.data
        if fields["job_data"].replace("\r\n", "\n") == self.text:
            return job.data
        try:
            data = restored(job.klass, fields["job_data"], job.data, self.alias)
        except (ValueError, RecursionError) as error:
            raise BadArgument(_("The data is no JSON: %s") % error) from None
        must_fit(job.klass, data)
        return data

    def next_url(self) -> str:
        """Return where to go: to the job that was put."""
        if self.put_jid:
            return self.links.url("job_change", self.put_jid)
        return super().next_url()


def must_fit(klass: str, data: str) -> None:
    """Raise BadArgument if data are none that the job's function takes.

    Of a job that this project does not know, nothing can be said.
    """
    job_type = job_type_of(klass)
    if job_type is None or job_type.binding is Binding.CLASS:
        return
    value = json.loads(data)
    args = value.get("args", []) if isinstance(value, dict) else None
    kwargs = value.get("kwargs", {}) if isinstance(value, dict) else None
    if not isinstance(args, list) or not isinstance(kwargs, dict) or "v" not in value:
        raise BadArgument(
            _(
                "The data of %s must be an object with “v”, a list “args” and an object "
                "“kwargs”"
            )
            % klass
        )
    skips = job_type.on_something or job_type.has_context
    try:
        Arity.of(job_type.function, skip_first=skips).refuse(klass, tuple(args), kwargs)
    except TypeError as error:
        raise BadArgument(str(error)) from None
