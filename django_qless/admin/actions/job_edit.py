"""Actions that enqueue a job, or a new one like it, with edited data."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin.actions.jobs import JobAction, view_of
from django_qless.admin.components.fields import LinesField, PriorityField
from django_qless.admin.components.payload import job_type_of
from django_qless.admin.views import Missing
from django_qless.conf import routing
from django_qless.conf.sealing import codec_of
from django_qless.core import BadArgument, Job, WrongState, new_jid
from django_qless.core.arguments import to_json
from django_qless.enqueue import unique_keys
from django_qless.exceptions import Fail
from django_qless.job_types.redaction import redact, restore_hidden
from django_qless.job_types.registry import Binding
from django_qless.job_types.signature import CallSignature
from django_qless.serialization.envelope import Envelope
from django_qless.serialization.sealing import is_sealed

EDITED = 200 * 1024
"""Characters up to which data can be edited on a page."""
ITSELF, NEW = "itself", "new"


class EditForm(forms.Form):
    """The job as it will be enqueued."""

    job_data = forms.CharField(
        label=gettext_lazy("Data"),
        widget=forms.Textarea(
            attrs={
                "rows": 16,
                "cols": 80,
                "spellcheck": "false",
                "dir": "ltr",
                "class": "vLargeTextField qless-code",
            }
        ),
        help_text=gettext_lazy(
            "JSON. Values shown as “[hidden]” are kept unless you replace them."
        ),
    )
    queue = forms.CharField(label=gettext_lazy("Queue"))
    priority = PriorityField(label=gettext_lazy("Priority"))
    retries = forms.IntegerField(label=gettext_lazy("Retries"), min_value=0)
    delay = forms.FloatField(
        label=gettext_lazy("Delay in seconds"), min_value=0, required=False
    )
    tags = LinesField(
        label=gettext_lazy("Tags"),
        required=False,
        help_text=gettext_lazy("One per line."),
    )
    put = forms.ChoiceField(
        label=gettext_lazy("Enqueue"),
        choices=[
            (ITSELF, gettext_lazy("this job again: it starts over")),
            (NEW, gettext_lazy("a new job like this: this one stays as it is")),
        ],
    )


class EditJob(JobAction):
    """Enqueues a job again, with other data."""

    verb = "edit"
    is_of_entities = False
    label = gettext_lazy("Enqueue again")
    form_class = EditForm
    enqueued = ""

    @cached_property
    def job(self) -> Job:
        """The job before the action. Raises Missing."""
        # Not `get`, which names all jobs that wait for it, however many there are.
        job = view_of(self).job
        if job.canceled and job.canceled.left_out:
            raise Missing(_("The job was canceled. Its data was too long to be kept."))
        return job

    @cached_property
    def text(self) -> str:
        """Its data, indented, without sensitive values."""
        return redact(self.job.klass, self.job.data).text

    @cached_property
    def is_too_long(self) -> bool:
        """True if its data is too long to be edited on a page."""
        return len(self.text) > EDITED

    def check(self) -> None:
        """Raise PermissionDenied for a user who may not see data; see JobAction."""
        if not self.may.data:
            raise PermissionDenied
        super().check()

    def question(self) -> str:
        """Return the question, and whether the data can be edited."""
        text = self.say(_("Enqueue %(klass)s again? Its state is “%(state)s”."))
        if self.is_too_long:
            text += " " + _(
                "Its data is too long to be edited here and is kept as it is."
            )
        return text

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, without the data if that is too long."""
        form = EditForm(*args, **options)
        if self.is_too_long:
            del form.fields["job_data"]
        return form

    def initial(self) -> dict[str, Any]:
        """Return the job before the action."""
        job = self.job
        return {
            "job_data": self.text,
            "queue": job.queue,
            "priority": job.priority,
            "retries": job.retries,
            "delay": 0,
            "tags": job.tags,
            "put": NEW if job.state in ("running", "complete") else ITSELF,
        }

    def act(self, fields: dict[str, Any]) -> str:
        """Enqueue it, or a new job like it."""
        job = self.job
        data = self.data_of(fields)
        is_new = fields["put"] == NEW
        if not is_new and job.state == "running":
            raise WrongState(
                _("The job is running: time it out first, or enqueue a new one like it")
            )
        if fields["queue"] != job.queue:
            routing.check_stays(f"Job {job.jid}", self.alias, fields["queue"])
        jid = new_jid() if is_new else job.jid
        exists = not is_new and not job.canceled
        put = self.client.requeue if exists else self.client.put
        enqueued = put(
            "",
            *(fields["queue"], jid, job.klass, data, fields["delay"] or 0),
            priority=fields["priority"],
            retries=fields["retries"],
            tags=fields["tags"],
            context=to_json(job.context) if job.context else None,
            **({} if exists else self.key_options),
        )
        if enqueued != jid:
            raise WrongState(
                _("Job %s has its unique key: wait until that has ended, or cancel it")
                % enqueued
            )
        self.enqueued = jid
        said = {"klass": job.klass, "queue": fields["queue"], "jid": jid}
        if is_new:
            return _("A new %(klass)s is in queue %(queue)s: job %(jid)s.") % said
        return _("Job %(klass)s is in queue %(queue)s again.") % said

    @property
    def key_options(self) -> dict[str, Any]:
        """The options of a put by which a job takes the unique key of this one."""
        key, job_type = self.job.unique, job_type_of(self.job.klass)
        if not key or job_type is None:
            return {"unique": key}
        until = "start" if job_type.options.unique_for == "waiting" else "end"
        aliases = unique_keys.under_aliases(job_type, key)
        return {"unique": key, "unique_until": until, "unique_aliases": aliases}

    def data_of(self, fields: dict[str, Any]) -> str:
        """Return the edited data. Raises BadArgument."""
        job = self.job
        if "job_data" not in fields:
            return job.data
        if fields["job_data"].replace("\r\n", "\n") == self.text:
            return job.data
        try:
            data = restore_hidden(job.klass, fields["job_data"], job.data)
        except (ValueError, RecursionError) as error:
            raise BadArgument(_("The data is not JSON: %s") % error) from None
        except Fail as error:
            raise BadArgument(str(error)) from None
        check_signature(job.klass, data)
        if is_sealed(job.data):
            codec = codec_of(self.alias)
            return data if codec is None else codec.seal(data)
        return data

    def next_url(self) -> str:
        """Return the page of the job that was enqueued."""
        if self.enqueued:
            return self.links.url("job_change", self.enqueued)
        return super().next_url()


def check_signature(klass: str, data: str) -> None:
    """Raise BadArgument if the job's function does not take the data as its call.

    Data of a job type that this project does not know is not checked.
    """
    job_type = job_type_of(klass)
    if job_type is None or job_type.binding is Binding.CLASS:
        return
    envelope = Envelope.read(data)
    if envelope is None or envelope.version is None:
        raise BadArgument(
            _(
                "The data of %s must be an object with “v”, a list “args” and an object "
                "“kwargs”"
            )
            % klass
        )
    skips = job_type.is_bound or job_type.takes_context
    try:
        CallSignature.of(job_type.function, skip_first=skips).check(
            klass, tuple(envelope.args), envelope.kwargs
        )
    except TypeError as error:
        raise BadArgument(str(error)) from None
