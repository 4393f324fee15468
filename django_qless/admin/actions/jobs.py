"""Actions on one job; those that concern other jobs are in job_dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting, permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.components.fields import LinesField, PriorityField
from django_qless.admin.components.job_table import is_held
from django_qless.admin.components.payload import entity_of
from django_qless.admin.views import Missing
from django_qless.conf import routing
from django_qless.core import Brief, BulkResult, Job, JobView, WrongState
from django_qless.core.commands.entities import ENTITY_JID
from django_qless.operations.changes import CHANGES

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.views import View


def no_job(jid: str) -> str:
    """Return the message that a job is gone, with the possible reasons."""
    return gettext(
        "There is no job %s. It was canceled, was completed and has expired, or was never "
        "enqueued."
    ) % (jid or "“”")


def view_of(view: View, **most: int) -> JobView[Job]:
    """Return what the server knows of the job that a URL names. Raises Missing.

    `most`: how many `links` and entries of its `history` are wanted.
    """
    found = view.client.job_view(view.name, **{"links": 0, "history": 1, **most})
    if found is None:
        raise Missing(no_job(view.name))
    return found


class JobAction(Action):
    """Changes one job."""

    permission = permissions.JOBS
    prompt = _("%(action)s: %(klass)s? Its state is “%(state)s”.")
    held_note: _StrOrPromise = ""
    """Said as well if a worker has the job."""
    is_of_entities = True
    """False if a job that carries an entity is refused: the entity has its own page."""

    def check(self) -> None:
        """Raise Missing for a job that carries an entity, if it is refused."""
        if self.is_of_entities or not self.name.startswith(ENTITY_JID):
            return
        job = view_of(self).job
        if entity := entity_of(job.data):
            raise Missing(
                gettext(
                    "The job carries the entity “%(entity)s”, which stays in its queue "
                    "and is there once: run or delete it on its own page, or push "
                    "payloads to it."
                )
                % {"entity": entity}
            )

    @cached_property
    def brief(self) -> Brief:
        """The job before the action. Raises Missing."""
        found = self.client.brief([self.name])
        if not found:
            raise Missing(no_job(self.name))
        return found[0]

    @cached_property
    def words(self) -> dict[str, Any]:
        """Values for `prompt` and `success`: the job before the action."""
        return {
            "action": self.label,
            "jid": self.name,
            "klass": self.brief.klass,
            "queue": self.brief.queue,
            "state": formatting.state(self.brief.state),
            "worker": self.brief.worker,
            "old": self.brief.priority,
        }

    def question(self) -> str:
        """Return the question, with the consequences."""
        asked = super().question()
        return f"{asked} {self.held_note}" if self.held_note and self.is_held else asked

    @property
    def is_held(self) -> bool:
        """True if a worker has the job."""
        return is_held(self.brief)

    def perform(self, fields: dict[str, Any]) -> None:
        """Make the bulk change with this verb; its value is the field of that name."""
        value = fields.get(self.verb)
        self.require(CHANGES[self.verb].apply(self.client, [self.name], value))

    def require(self, each: BulkResult) -> None:
        """Raise WrongState if the server refused the change."""
        for reason in each.refused.values():
            raise WrongState(reason)


class RetryJob(JobAction):
    """Returns a failed job to its queue, with all of its retries."""

    verb = "retry"
    label = _("Retry")
    success = _("Job %(klass)s is back in queue %(queue)s.")


class RunJob(JobAction):
    """Makes a scheduled job ready."""

    verb = "run"
    is_of_entities = False
    label = _("Run now")
    success = _("Job %(klass)s is due now in queue %(queue)s.")

    def perform(self, fields: dict[str, Any]) -> None:
        """Move the job to its own queue, without a delay."""
        if self.brief.state != "scheduled":
            raise WrongState(
                self.say(
                    _("Its state is “%(state)s”; only scheduled jobs can be run now")
                )
            )
        self.require(self.client.move_each([self.name], self.brief.queue))


class MoveForm(forms.Form):
    """The queue to move a job to."""

    queue = forms.CharField(label=_("Queue"))
    delay = forms.FloatField(label=_("Delay in seconds"), min_value=0, required=False)


class MoveJob(JobAction):
    """Moves a job to another queue, where it starts over."""

    verb = "move"
    is_of_entities = False
    label = _("Move")
    form_class = MoveForm
    prompt = _(
        "Move %(klass)s to another queue? It starts over there, with all of its retries."
    )
    held_note = _("It is taken from its worker.")
    success = _("Job %(klass)s is in queue %(queue)s now.")

    def initial(self) -> dict[str, Any]:
        """Return its queue."""
        return {"queue": self.brief.queue, "delay": 0}

    def perform(self, fields: dict[str, Any]) -> None:
        """Move it."""
        queue, delay = fields["queue"], fields["delay"] or 0
        if queue != self.brief.queue:
            routing.check_stays(f"Job {self.name}", self.alias, queue)
        self.require(self.client.move_each([self.name], queue, delay))


class PriorityForm(forms.Form):
    """The priority of a job."""

    priority = PriorityField(
        label=_("Priority"), help_text=_("Higher priorities run first.")
    )


class ChangePriority(JobAction):
    """Changes the priority of a job in its queue."""

    verb = "priority"
    label = _("Change priority")
    form_class = PriorityForm
    success = _("The priority of %(klass)s is %(priority)s; it was %(old)s.")

    def initial(self) -> dict[str, Any]:
        """Return its priority."""
        return {"priority": self.brief.priority}


class TagForm(forms.Form):
    """Tags to add."""

    tags = LinesField(
        label=_("Tags"), help_text=_("One per line; a job has at most 32.")
    )


class TagJob(JobAction):
    """Adds tags to a job."""

    verb = "tag"
    label = _("Add tags")
    form_class = TagForm

    def act(self, fields: dict[str, Any]) -> str:
        """Add them."""
        self.client.tag(self.name, fields["tags"])
        tags = ", ".join(fields["tags"])
        return self.say(_("Added to job %(klass)s: %(tags)s."), tags=tags)


class FromQuery(JobAction):
    """Takes a missing form field from the URL, for buttons without a form."""

    field: str

    def initial(self) -> dict[str, Any]:
        """Return the value in the URL."""
        return {self.field: self.request.GET.get(self.field, "")}

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, bound to what was sent and to the URL."""
        if args and self.field not in args[0] and self.field in self.request.GET:
            data = args[0].copy()
            data[self.field] = self.request.GET[self.field]
            args = (data, *args[1:])
        return super().make_form(*args, **options)


class UntagForm(forms.Form):
    """The tag to remove."""

    tag = forms.CharField(label=_("Tag"), strip=False)


class UntagJob(FromQuery):
    """Removes a tag from a job."""

    verb = "untag"
    label = _("Remove tag")
    form_class = UntagForm
    field = "tag"
    success = _("Removed the tag %(tag)s from job %(klass)s.")

    def perform(self, fields: dict[str, Any]) -> None:
        """Remove it."""
        tag = fields["tag"]
        if tag not in self.brief.tags:
            raise WrongState(gettext("The job does not have the tag %r") % tag)
        self.client.untag(self.name, [tag])


class TrackJob(JobAction):
    """Tracks a job."""

    verb = "track"
    label = _("Track")
    success = _("Job %(klass)s is tracked: its events are published.")


class UntrackJob(JobAction):
    """Stops tracking a job."""

    verb = "untrack"
    label = _("Stop tracking")
    success = _("Job %(klass)s is no longer tracked.")


class TimeOutJob(JobAction):
    """Takes a running job from its worker."""

    verb = "timeout"
    label = _("Time out")
    danger = True
    success = _("Job %(klass)s was taken from %(worker)s, and is first in its queue.")

    def question(self) -> str:
        """Return the question; for a job that no worker has, its state."""
        if not self.is_held:
            return super().question()
        return self.say(
            _(
                "Take %(klass)s from its worker %(worker)s? It is first in its queue and "
                "runs again, so its work so far may be done twice."
            )
        )
