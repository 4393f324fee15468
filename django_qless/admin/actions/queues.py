"""Actions on a queue: pause, resume, limit, forget. Emptying it: empty_queue."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless import conf
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.components.fields import value_field
from django_qless.admin.components.options import Limit, limits
from django_qless.admin.components.queue_table import is_empty, pause_reason
from django_qless.admin.views import Missing, View
from django_qless.conf import config_sync
from django_qless.core import WrongState, arguments
from django_qless.core.commands.queues import REASON_BYTES, QueueCounts
from django_qless.operations.status import with_schedules


def queue_of(view: View) -> QueueCounts:
    """Return the counts of the queue that a URL names.

    Raises Missing for one that has nothing, is not on the list of queues, and is not in
    the setting QLESS.
    """
    client = view.client
    (counts,) = with_schedules(client, [client.queue_counts(view.name)])
    if (
        is_empty(counts)
        and not counts.paused
        and view.name not in conf.alias(view.alias).queues
        and all(each.name != view.name for each in client.queues())
    ):
        raise Missing(
            gettext("There is no queue “%s”: it never had a job, or it was forgotten.")
            % view.name
        )
    return counts


def limits_of(view: View) -> list[Limit]:
    """Return the limits of the queue that a URL names."""
    declared = config_sync.declared_options(view.alias)
    return limits(view.name, view.client.config_all(), declared)


class QueueAction(Action):
    """Changes one queue, which must exist."""

    permission = permissions.QUEUES

    @cached_property
    def counts(self) -> QueueCounts:
        """The counts of the queue before the action. Raises Missing."""
        return queue_of(self)

    def check(self) -> None:
        """Raise Missing if there is no such queue."""
        self.counts  # noqa: B018 (reading raises)


class PauseForm(forms.Form):
    """The reason of a pause."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=REASON_BYTES,
        help_text=_("Shown wherever the queue is shown as paused."),
    )

    def clean_reason(self) -> str:
        """Return the reason; raise ValidationError if it is too long for the core."""
        reason: str = self.cleaned_data["reason"]
        if arguments.size(reason) > REASON_BYTES:
            raise ValidationError(
                gettext("It has %(size)s bytes; the limit is %(most)s.")
                % {"size": arguments.size(reason), "most": REASON_BYTES}
            )
        return reason


class Pause(QueueAction):
    """Stops a queue from handing out jobs, and keeps the reason."""

    verb = "pause"
    label = _("Pause")
    form_class = PauseForm

    def question(self) -> str:
        """Return the question; for a paused queue, about another reason."""
        if self.counts.paused:
            return self.say(
                _("The queue “%(name)s” is already paused. Give another reason?")
            )
        return self.say(
            _(
                "Pause the queue “%(name)s”? Workers take none of its jobs until it is "
                "resumed; running jobs go on, and jobs can still be enqueued."
            )
        )

    def act(self, fields: dict[str, Any]) -> str:
        """Pause it."""
        was_paused = self.counts.paused
        by = self.request.user.get_username()
        # A limit in bytes, cut between two characters.
        by = by.encode()[: arguments.NAME_BYTES].decode(errors="ignore")
        reason = fields["reason"]
        self.client.pause(self.name, reason, by=by)
        if reason:
            return self.say(_("Paused the queue “%(name)s”: %(reason)s"), **fields)
        if was_paused:
            return self.say(_("The queue “%(name)s” was already paused."))
        return self.say(_("Paused the queue “%(name)s”."))


class Resume(QueueAction):
    """Makes a queue hand out jobs again."""

    verb = "resume"
    label = _("Resume")
    success = _("Resumed the queue “%(name)s”.")
    unchanged = _("The queue “%(name)s” was not paused.")

    def question(self) -> str:
        """Return the question, with the reason of the pause."""
        asked = self.say(_("Resume the queue “%(name)s”? Workers take its jobs again."))
        reason = pause_reason(self.counts)
        if not reason:
            return asked
        paused = gettext("It was paused: %s") % reason
        return f"{asked} {paused}"

    def perform(self, fields: dict[str, Any]) -> bool:
        """Resume it; return whether it was paused."""
        was_paused = self.counts.paused
        self.client.unpause(self.name)
        return was_paused


class LimitsForm(forms.Form):
    """The three limits of a queue; an empty field is the default."""

    def __init__(self, limits: list[Limit], *args: Any, **options: Any) -> None:
        initial = {each.field: each.option.value for each in limits if each.is_set}
        super().__init__(*args, **({"initial": initial} | options))
        for limit in limits:
            self.fields[limit.field] = value_field(
                limit.option.name,
                label=limit.label,
                required=False,
                help_text=gettext("%(meaning)s Empty: %(usual)s.")
                % {"meaning": limit.option.meaning, "usual": limit.usual_words},
            )


class Limits(QueueAction):
    """Sets the limits of a queue: heartbeat, max. concurrency, rate and weight."""

    verb = "limits"
    label = _("Save limits")
    prompt = _("The limits of the queue “%(name)s”. Workers apply them immediately.")

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form with the current values."""
        options.pop("initial", None)
        return LimitsForm(limits_of(self), *args, **options)

    def act(self, fields: dict[str, Any]) -> str:
        """Write what differs from the current values."""
        changes = []
        for limit in limits_of(self):
            name, value = limit.option.name, fields[limit.field]
            now = limit.option.value if limit.is_set else None
            if value == now:
                continue
            if value is None:
                config_sync.reset([name], self.alias)
                value = limit.usual
                # A declared value counts as set: there is nothing to reset.
                if limit.option.by == "settings":
                    continue
            else:
                self.client.config_set(name, value)
            changes.append(
                gettext("%(option)s %(before)s → %(after)s")
                % {"option": limit.key, "before": limit.value, "after": value}
            )
        if not changes:
            return self.say(_("The limits of the queue “%(name)s” are unchanged."))
        return self.say(
            _("Changed the limits of the queue “%(name)s”: %(changes)s."),
            changes=", ".join(changes),
        )


class Forget(QueueAction):
    """Removes an empty queue from the list."""

    verb = "forget"
    label = _("Forget")
    danger = True
    prompt = _(
        "Remove the queue “%(name)s” from the list? It must be empty. The next job that "
        "is enqueued brings it back."
    )
    success = _("Removed the queue “%(name)s” from the list.")
    back_to_list = True

    def perform(self, fields: dict[str, Any]) -> None:
        """Forget it; raises WrongState if there is something in it."""
        try:
            self.client.forget_queue(self.name, only_if_empty=True)
        except WrongState as error:
            raise WrongState(
                gettext("%s. Empty it first, or it would be back immediately.")
                % error.detail
            ) from error
