"""What can be done with a queue: pause, resume, limit and forget it.

Emptying it is done in chunks: see bulk.EmptyQueue.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless import conf, declared
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.actions.option_fields import NUMBERS_OF_A_QUEUE, NumberText
from django_qless.admin.presenters.limits import LABELS, Limit, limits
from django_qless.admin.presenters.queues import is_empty, pause_in_words
from django_qless.admin.views import Missing, View
from django_qless.core import WrongState, arguments
from django_qless.core.commands.queues import REASON_BYTES, QueueCounts


def queue_of(view: View) -> QueueCounts:
    """Return the counts of the queue that a URL names.

    Raises Missing for one that has nothing, is not on the list of queues, and of which
    the setting QLESS says nothing.
    """
    counts = view.client.queue_counts(view.name)
    (recurring,) = view.client.recurring_of([view.name])
    counts = counts._replace(recurring=recurring)
    if (
        is_empty(counts)
        and not counts.paused
        and view.name not in conf.alias(view.alias).queues
        and all(each.name != view.name for each in view.client.queues())
    ):
        raise Missing(
            _(
                "There is no queue “%s”: no job has been put into it yet, or it was "
                "forgotten."
            )
            % view.name
        )
    return counts


def limits_of(view: View) -> list[Limit]:
    """Return what limits the queue that a URL names."""
    declared = conf.alias(view.alias).declared
    return limits(view.name, view.client.config_all(), declared)


class PauseForm(forms.Form):
    """Why."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=REASON_BYTES,
        help_text=gettext_lazy("Shown wherever the queue is shown as paused."),
    )

    def clean_reason(self) -> str:
        """Return the reason; raise ValidationError if the core would refuse it."""
        reason: str = self.cleaned_data["reason"]
        if arguments.size(reason) > REASON_BYTES:
            raise ValidationError(
                _("It has %(size)s bytes; %(most)s at most.")
                % {"size": arguments.size(reason), "most": REASON_BYTES}
            )
        return reason


class QueueAction(Action):
    """An action on a queue."""

    permission = permissions.QUEUES


class Pause(QueueAction):
    """Hands out no more jobs of a queue, and keeps why."""

    verb = "pause"
    label = gettext_lazy("Pause")
    form_class = PauseForm

    def question(self) -> str:
        """Return what follows from it."""
        if queue_of(self).paused:
            return _("The queue “%s” is paused already. Give another reason?") % (
                self.name
            )
        return _(
            "Pause the queue “%s”? No job of it is handed out until it is resumed; what "
            "runs goes on, and jobs can still be put."
        ) % (self.name)

    def act(self, fields: dict[str, Any]) -> str:
        """Pause it."""
        was_paused = queue_of(self).paused
        reason = fields["reason"]
        by = self.request.user.get_username()
        # A text of bytes, cut between two characters.
        by = by.encode()[: arguments.NAME_BYTES].decode(errors="ignore")
        self.client.pause(self.name, reason, by=by)
        if was_paused and not reason:
            return _("The queue “%s” was paused already.") % self.name
        if reason:
            return _("Paused the queue “%(queue)s”: %(reason)s") % {
                "queue": self.name,
                "reason": reason,
            }
        return _("Paused the queue “%s”.") % self.name


class Resume(QueueAction):
    """Hands out jobs of a queue again."""

    verb = "resume"
    label = gettext_lazy("Resume")

    def question(self) -> str:
        """Return what is known of the pause."""
        counts = queue_of(self)
        asked = _("Resume the queue “%s”? Its jobs are handed out again.") % self.name
        words = pause_in_words(counts)
        return f"{asked} {_('It was paused: %s') % words}" if words else asked

    def act(self, fields: dict[str, Any]) -> str:
        """Resume it."""
        was_paused = queue_of(self).paused
        self.client.unpause(self.name)
        if not was_paused:
            return _("The queue “%s” was not paused.") % self.name
        return _("Resumed the queue “%s”.") % self.name


class LimitsForm(forms.Form):
    """The three options of a queue; an empty field means: none of its own."""

    def __init__(self, limits: list[Limit], *args: Any, **options: Any) -> None:
        initial = {each.field: each.option.value for each in limits if each.is_set}
        super().__init__(*args, **({"initial": initial} | options))
        for limit in limits:
            self.fields[limit.field] = NumberText(
                NUMBERS_OF_A_QUEUE[limit.key],
                label=LABELS[limit.key],
                required=False,
                help_text=_("%(meaning)s Empty: %(usual)s.")
                % {"meaning": limit.option.meaning, "usual": limit.usual_words},
            )


class Limits(QueueAction):
    """Sets how a queue is served: heartbeat, max. concurrency and weight."""

    verb = "limits"
    label = gettext_lazy("Save limits")

    def question(self) -> str:
        """Return what follows from it."""
        queue_of(self)
        return _("The limits of the queue “%s”. Workers follow them at once.") % (
            self.name
        )

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, which shows what is set."""
        options.pop("initial", None)
        return LimitsForm(limits_of(self), *args, **options)

    def act(self, fields: dict[str, Any]) -> str:
        """Write what differs from what is set."""
        queue_of(self)
        changes = []
        for limit in limits_of(self):
            name, value = limit.option.name, fields[limit.field]
            now = limit.option.value if limit.is_set else None
            if value == now:
                continue
            if value is None:
                declared.reset([name], self.alias)
                value = limit.usual
                # Declared is as good as set: there is nothing to go back to.
                if limit.option.by == "settings":
                    continue
            else:
                self.client.config_set(name, value)
            changes.append(
                _("%(option)s %(before)s → %(after)s")
                % {"option": limit.key, "before": limit.value, "after": value}
            )
        if not changes:
            return _("The limits of the queue “%s” are as they were.") % self.name
        return _("Changed the limits of the queue “%(queue)s”: %(changes)s.") % {
            "queue": self.name,
            "changes": ", ".join(changes),
        }


class Forget(QueueAction):
    """Takes an empty queue off the list."""

    verb = "forget"
    label = gettext_lazy("Forget")
    danger = True

    def question(self) -> str:
        """Return what follows from it."""
        queue_of(self)
        return _(
            "Take the queue “%s” off the list? It must be empty. The next job that is "
            "put into it brings it back."
        ) % (self.name)

    def act(self, fields: dict[str, Any]) -> str:
        """Forget it; raises WrongState if there is something in it."""
        queue_of(self)
        try:
            self.client.forget_queue(self.name, only_if_empty=True)
        except WrongState as error:
            raise WrongState(
                _("%s. Empty it first, or it would be back at once.") % error.detail
            ) from error
        return _("Took the queue “%s” off the list.") % self.name

    def usual_next(self) -> str:
        """Return the list: the page of the queue is about nothing any more."""
        return self.links.url("queue_changelist")
