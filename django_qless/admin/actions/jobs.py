"""What operators do to one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import permissions, words
from django_qless.admin.actions.base import Action
from django_qless.admin.presenters.job import is_held
from django_qless.admin.views import Missing
from django_qless.core import BadArgument, Brief, Each, WrongState

NAME_BYTES = 255


class JobAction(Action):
    """Changes one job."""

    permission = permissions.JOBS

    @cached_property
    def brief(self) -> Brief:
        """The job as it is now. Raises Missing."""
        found = self.client.brief([self.name])
        if not found:
            raise Missing(no_job(self.name))
        return found[0]

    def question(self) -> str:
        """Return what is asked, with the name of the job's type."""
        return _("%(action)s: %(klass)s? Its state is “%(state)s”.") % {
            "action": self.label,
            "klass": self.brief.klass,
            "state": words.state(self.brief.state),
        }

    def must(self, each: Each) -> None:
        """Raise WrongState if what was to be done was refused."""
        for reason in each.refused.values():
            raise WrongState(reason)

    def done(self, template: str, **values: Any) -> str:
        """Return what was done, with the job's name."""
        return template % {"klass": self.brief.klass, "jid": self.name, **values}


def no_job(jid: str) -> str:
    """Say that a job is gone, and how that may be."""
    return _(
        "There is no job %s. It was canceled or completed and has expired, or was never "
        "put."
    ) % (jid or "“”")


class RetryJob(JobAction):
    """Puts a failed job back, with all of its retries."""

    verb = "retry"
    label = gettext_lazy("Retry")

    def act(self, fields: dict[str, Any]) -> str:
        """Retry it."""
        queue = self.brief.queue
        self.must(self.client.revive_each([self.name]))
        return self.done(_("Job %(klass)s is back in queue %(queue)s."), queue=queue)


class RunJob(JobAction):
    """Makes a scheduled job ready."""

    verb = "run"
    label = gettext_lazy("Run now")

    def act(self, fields: dict[str, Any]) -> str:
        """Let it be due now."""
        brief = self.brief
        if brief.state != "scheduled":
            raise WrongState(
                _("The job is %s: only a scheduled one waits for its time")
                % words.state(brief.state)
            )
        self.must(self.client.move_each([self.name], brief.queue))
        return self.done(
            _("Job %(klass)s is due now in queue %(queue)s."), queue=brief.queue
        )


class MoveForm(forms.Form):
    """Where to."""

    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=NAME_BYTES)
    delay = forms.FloatField(
        label=gettext_lazy("Delay in seconds"), min_value=0, required=False
    )


class MoveJob(JobAction):
    """Puts a job into another queue, where it begins anew."""

    verb = "move"
    label = gettext_lazy("Move")
    form_class = MoveForm

    def question(self) -> str:
        """Return what follows from it."""
        text = _(
            "Move %(klass)s to another queue? There it begins anew, with all of its "
            "retries."
        ) % {"klass": self.brief.klass}
        if is_held(self.brief):
            text += " " + _("It is taken from its worker.")
        return text

    def initial(self) -> dict[str, Any]:
        """Return the queue it is in."""
        return {"queue": self.brief.queue, "delay": 0}

    def act(self, fields: dict[str, Any]) -> str:
        """Move it."""
        queue, klass = fields["queue"], self.brief.klass
        self.must(self.client.move_each([self.name], queue, fields["delay"] or 0))
        return _("Job %(klass)s is in queue %(queue)s now.") % {
            "klass": klass,
            "queue": queue,
        }


class PriorityForm(forms.Form):
    """Which."""

    priority = forms.FloatField(
        label=gettext_lazy("Priority"), help_text=gettext_lazy("Higher goes first.")
    )


class ChangePriority(JobAction):
    """Changes a job's place in its queue."""

    verb = "priority"
    label = gettext_lazy("Change priority")
    form_class = PriorityForm

    def initial(self) -> dict[str, Any]:
        """Return the priority it has."""
        return {"priority": self.brief.priority}

    def act(self, fields: dict[str, Any]) -> str:
        """Change it."""
        old, new = self.brief.priority, whole(fields["priority"])
        self.must(self.client.priority_each([self.name], new))
        return self.done(
            _("The priority of %(klass)s is %(new)s; it was %(old)s."), new=new, old=old
        )


def whole(number: float) -> int | float:
    """Return a whole number as an int."""
    return int(number) if number.is_integer() else number


class TagForm(forms.Form):
    """Which."""

    tags = forms.CharField(
        label=gettext_lazy("Tags"),
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("One in each line; a job has at most 32."),
    )


class TagJob(JobAction):
    """Adds tags."""

    verb = "tag"
    label = gettext_lazy("Add tags")
    form_class = TagForm

    def act(self, fields: dict[str, Any]) -> str:
        """Add them."""
        tags = lines(fields["tags"])
        klass = self.brief.klass
        self.client.tag(self.name, tags)
        return _("Job %(klass)s carries %(tags)s.") % {
            "klass": klass,
            "tags": ", ".join(tags),
        }


def lines(text: str) -> list[str]:
    """Return the lines that say something, each once, without space around them."""
    return list(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))


class UntagForm(forms.Form):
    """Which; a link may have named it."""

    tag = forms.CharField(label=gettext_lazy("Tag"), strip=False)


class FromQuery(JobAction):
    """Takes a field from the URL if the form does not give it: a button needs no form."""

    field: str

    def initial(self) -> dict[str, Any]:
        """Return what the URL says."""
        return {self.field: self.request.GET.get(self.field, "")}

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, bound to what was sent and to the URL."""
        if args and self.field not in args[0] and self.field in self.request.GET:
            data = args[0].copy()
            data[self.field] = self.request.GET[self.field]
            args = (data, *args[1:])
        return super().make_form(*args, **options)


class UntagJob(FromQuery):
    """Removes a tag."""

    verb = "untag"
    label = gettext_lazy("Remove tag")
    form_class = UntagForm
    field = "tag"

    def act(self, fields: dict[str, Any]) -> str:
        """Remove it."""
        tag = fields["tag"]
        if tag not in self.brief.tags:
            raise WrongState(_("The job does not carry the tag %r") % tag)
        self.client.untag(self.name, [tag])
        return self.done(_("Job %(klass)s does not carry %(tag)s any more."), tag=tag)


class TrackJob(JobAction):
    """Follows a job."""

    verb = "track"
    label = gettext_lazy("Track")

    def act(self, fields: dict[str, Any]) -> str:
        """Track it."""
        self.must(self.client.track_each([self.name]))
        return self.done(_("Job %(klass)s is tracked: its events are published."))


class UntrackJob(JobAction):
    """Follows a job no longer."""

    verb = "untrack"
    label = gettext_lazy("Stop tracking")

    def act(self, fields: dict[str, Any]) -> str:
        """Untrack it."""
        klass = self.brief.klass
        self.must(self.client.untrack_each([self.name]))
        return _("Job %(klass)s is not tracked any more.") % {"klass": klass}


class TimeOutJob(JobAction):
    """Takes a running job from its worker."""

    verb = "timeout"
    label = gettext_lazy("Time out")
    danger = True

    def question(self) -> str:
        """Return what follows from it; of a job that no worker has, what it is."""
        if not is_held(self.brief):
            return super().question()
        return _(
            "Take %(klass)s from its worker %(worker)s? What it did so far may be done "
            "twice: it comes first in its queue, and runs again."
        ) % {"klass": self.brief.klass, "worker": self.brief.worker}

    def act(self, fields: dict[str, Any]) -> str:
        """Take it."""
        worker = self.brief.worker
        self.must(self.client.timeout_each([self.name]))
        return self.done(
            _("Job %(klass)s was taken from %(worker)s, and comes first in its queue."),
            worker=worker,
        )


class UndependForm(forms.Form):
    """On what not; nothing stands for all."""

    on = forms.CharField(label=gettext_lazy("Job id"), required=False, strip=False)


class UndependJob(FromQuery):
    """Lets a job wait for another one, or for all others, no longer."""

    verb = "undepend"
    label = gettext_lazy("Stop waiting")
    form_class = UndependForm
    field = "on"

    def question(self) -> str:
        """Return what follows from it."""
        return _(
            "Let %(klass)s not wait any longer: for this job, or if none is named, for "
            "any? It runs although what it waited for is not done."
        ) % {"klass": self.brief.klass}

    def act(self, fields: dict[str, Any]) -> str:
        """Cut the link, or all links."""
        other, brief = fields["on"], self.brief
        if brief.state != "depends":
            raise WrongState(
                _("The job does not wait for others: it is %s")
                % words.state(brief.state)
            )
        off: Sequence[str] | None = [other] if other else None
        if off and not any(one.jid == other for one in self._waited_for()):
            raise BadArgument(_("The job does not wait for %r") % other)
        self.client.depends_off(self.name, off)
        if other:
            return self.done(
                _("Job %(klass)s does not wait for %(other)s."), other=other
            )
        return self.done(_("Job %(klass)s does not wait for any other job."))

    def _waited_for(self) -> list[Brief]:
        view = self.client.job_view(self.name, links=250, history=1)
        return view.dependencies if view else []
