"""What can be done to many jobs, and in which words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_qless.core import BadArgument, arguments

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.core import Brief, Client
    from django_qless.core.commands.operations import Each

CHUNK = 250
"""Jobs that one call deals with."""


class BulkForm(forms.Form):
    """What is asked of every verb; those with a value have a field of that name."""

    rate = forms.IntegerField(
        label=_("Jobs per second"),
        help_text=_("Spares whatever the jobs need. Empty: as fast as it goes."),
        required=False,
        min_value=1,
        max_value=100_000,
    )

    def clean_value(self) -> Any:
        """Return the value as the core takes it; what it refuses is the field's error."""
        try:
            return self.checked(self.cleaned_data["value"])
        except BadArgument as error:
            raise ValidationError(str(error)) from None

    def checked(self, value: Any) -> Any:
        """Return the value, or raise BadArgument."""
        return value


class MoveForm(BulkForm):
    """Where to."""

    value = forms.CharField(label=_("To the queue"), max_length=1000)
    field_order = ("value", "rate")

    def checked(self, value: str) -> str:
        """Return the queue's name, or raise BadArgument."""
        return arguments.queue(value)


class PriorityForm(BulkForm):
    """How urgent."""

    value = forms.IntegerField(
        label=_("Priority"),
        help_text=_("The job with the highest priority is done first; usual is 0."),
        min_value=-(2**53),
        max_value=2**53,
    )
    field_order = ("value", "rate")


class TagForm(BulkForm):
    """Which tag."""

    value = forms.CharField(label=_("Tag"), max_length=1000)
    field_order = ("value", "rate")

    def checked(self, value: str) -> str:
        """Return the tag, or raise BadArgument."""
        return arguments.name("tag", value)


@dataclass(frozen=True)
class Verb:
    """Something that can be done to each of many jobs."""

    name: str
    #: What the button says.
    label: _StrOrPromise
    #: With the number of jobs as `n`, in words as `count`, and the value.
    question: Any
    done: Any
    act: Callable[[Client, Sequence[str], Any], Each]
    #: What the button of the page that asks says, if `label` could be misread there.
    confirm: _StrOrPromise = ""
    #: Whether a job is one to do it to, and has not been dealt with already.
    wants: Callable[[Brief, Any], bool] = lambda brief, value: True
    #: What follows from it; "" if the question says it all.
    note: _StrOrPromise = ""
    danger: bool = False
    form_class: type[BulkForm] = BulkForm
    #: The state that jobs must have, for all that match.
    state: str | None = None
    #: Whether a job leaves its place in the list that it was found in.
    displaces: bool = True
    #: Whether the core finds the oldest job of a failure group quickest.
    oldest_first: bool = False
    #: Whether a job that is dealt with looks, by its state, as if it had come anew.
    renews: bool = False


_ALL = (
    Verb(
        "retry",
        _("Retry"),
        ngettext_lazy("Retry %(count)s job?", "Retry %(count)s jobs?", "n"),
        ngettext_lazy("Retried %(count)s job.", "Retried %(count)s jobs.", "n"),
        lambda client, jids, _value: client.revive_each(jids),
        wants=lambda brief, _value: brief.state == "failed",
        note=_("Failed jobs go back into their queues, with all of their retries."),
        state="failed",
        oldest_first=True,
        renews=True,
    ),
    Verb(
        "cancel",
        _("Cancel"),
        ngettext_lazy("Cancel %(count)s job?", "Cancel %(count)s jobs?", "n"),
        ngettext_lazy("Canceled %(count)s job.", "Canceled %(count)s jobs.", "n"),
        lambda client, jids, _value: client.cancel_each(jids),
        wants=lambda brief, _value: brief.state != "complete",
        confirm=_("Cancel the jobs"),
        note=_(
            "They are deleted: they do not run, and one that is running is told to stop. "
            "Only what is remembered of canceled jobs for a while can be put again, one "
            "by one."
        ),
        danger=True,
    ),
    Verb(
        "move",
        _("Move"),
        ngettext_lazy("Move %(count)s job?", "Move %(count)s jobs?", "n"),
        ngettext_lazy(
            "Moved %(count)s job to the queue “%(value)s”.",
            "Moved %(count)s jobs to the queue “%(value)s”.",
            "n",
        ),
        lambda client, jids, value: client.move_each(jids, value),
        note=_("They begin anew there, whatever their state is now."),
        form_class=MoveForm,
        renews=True,
    ),
    Verb(
        "priority",
        _("Change priority"),
        ngettext_lazy(
            "Change the priority of %(count)s job?",
            "Change the priority of %(count)s jobs?",
            "n",
        ),
        ngettext_lazy(
            "%(count)s job has the priority %(value)s now.",
            "%(count)s jobs have the priority %(value)s now.",
            "n",
        ),
        lambda client, jids, value: client.priority_each(jids, value),
        wants=lambda brief, value: brief.priority != value,
        form_class=PriorityForm,
    ),
    Verb(
        "tag",
        _("Tag"),
        ngettext_lazy("Tag %(count)s job?", "Tag %(count)s jobs?", "n"),
        ngettext_lazy(
            "%(count)s job has the tag “%(value)s” now.",
            "%(count)s jobs have the tag “%(value)s” now.",
            "n",
        ),
        lambda client, jids, value: client.tag_each(jids, value),
        wants=lambda brief, value: value not in brief.tags,
        form_class=TagForm,
        displaces=False,
    ),
    Verb(
        "untag",
        _("Remove tag"),
        ngettext_lazy(
            "Remove a tag from %(count)s job?",
            "Remove a tag from %(count)s jobs?",
            "n",
        ),
        ngettext_lazy(
            "Removed the tag “%(value)s” from %(count)s job.",
            "Removed the tag “%(value)s” from %(count)s jobs.",
            "n",
        ),
        lambda client, jids, value: client.untag_each(jids, value),
        wants=lambda brief, value: value in brief.tags,
        form_class=TagForm,
    ),
    Verb(
        "track",
        _("Track"),
        ngettext_lazy("Track %(count)s job?", "Track %(count)s jobs?", "n"),
        ngettext_lazy("Tracks %(count)s job.", "Tracks %(count)s jobs.", "n"),
        lambda client, jids, _value: client.track_each(jids),
        wants=lambda brief, _value: not brief.tracked,
        note=_("What happens to them is published, and they are listed under Tracked."),
        displaces=False,
    ),
    Verb(
        "untrack",
        _("Stop tracking"),
        ngettext_lazy(
            "Stop tracking %(count)s job?", "Stop tracking %(count)s jobs?", "n"
        ),
        ngettext_lazy(
            "Stopped tracking %(count)s job.",
            "Stopped tracking %(count)s jobs.",
            "n",
        ),
        lambda client, jids, _value: client.untrack_each(jids),
        wants=lambda brief, _value: brief.tracked,
        displaces=False,
    ),
    Verb(
        "timeout",
        _("Time out"),
        ngettext_lazy(
            "Take %(count)s job from its worker?",
            "Take %(count)s jobs from their workers?",
            "n",
        ),
        ngettext_lazy(
            "Took %(count)s job from its worker.",
            "Took %(count)s jobs from their workers.",
            "n",
        ),
        lambda client, jids, _value: client.timeout_each(jids),
        wants=lambda brief, _value: brief.state in ("running", "stalled"),
        note=_("Whoever runs such a job is told to stop; the next worker begins anew."),
        danger=True,
        renews=True,
    ),
)

VERBS: dict[str, Verb] = {verb.name: verb for verb in _ALL}
