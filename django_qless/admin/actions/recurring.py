"""Actions on a recurring job: run, pause, resume, remove, reset, edit."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.components.fields import (
    DurationField,
    LinesField,
    PriorityField,
    as_core_takes,
    duration_text,
)
from django_qless.admin.components.schedule_table import MISSED, declared_in_code
from django_qless.admin.views import Missing
from django_qless.core import Schedule, arguments
from django_qless.exceptions import InvalidOption
from django_qless.schedules import declared
from django_qless.schedules.handle import RecurringHandle
from django_qless.schedules.ticks import WORD
from django_qless.schedules.timetable import Timetable


class ScheduleAction(Action):
    """Changes a recurring job, which must exist."""

    permission = permissions.RECURRING

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule before the action. Raises Missing."""
        found = self.client.schedule_get(self.name)
        if found is None:
            raise Missing(gettext("There is no recurring job with this id."))
        return found

    def check(self) -> None:
        """Raise Missing if it does not exist."""
        self.schedule  # noqa: B018 (reading raises)


class RunNow(ScheduleAction):
    """Enqueues a job now, outside the schedule."""

    verb = "run"
    label = _("Run now")
    prompt = _("Enqueue a job of “%(name)s” now, outside its schedule?")

    def act(self, fields: dict[str, Any]) -> str:
        """Enqueue it."""
        jid = self.client.schedule_run(self.name)
        return self.say(_("Enqueued the job %(jid)s of “%(name)s”."), jid=jid)


class Pause(ScheduleAction):
    """Pauses a recurring job until it is resumed."""

    verb = "pause"
    label = _("Pause")
    prompt = _(
        "Pause “%(name)s”? It enqueues no jobs until it is resumed; jobs that it has "
        "enqueued stay."
    )
    success = _("Paused “%(name)s”.")
    unchanged = _("“%(name)s” was already paused.")

    def perform(self, fields: dict[str, Any]) -> bool:
        """Pause it."""
        return bool(self.client.schedule_pause([self.name]))


class Resume(ScheduleAction):
    """Resumes a recurring job; missed ticks are not made up for."""

    verb = "resume"
    label = _("Resume")
    prompt = _("Resume “%(name)s”? Ticks that it has missed are not made up for.")
    success = _("Resumed “%(name)s”.")
    unchanged = _("“%(name)s” was not paused.")

    def perform(self, fields: dict[str, Any]) -> bool:
        """Resume it."""
        return bool(self.client.schedule_resume([self.name]))


class Remove(ScheduleAction):
    """Removes a recurring job."""

    verb = "remove"
    label = _("Remove")
    danger = True
    success = _("Removed “%(name)s”.")

    def question(self) -> str:
        """Return the question, which says whether the removal can be undone."""
        if self.name in declared_in_code(self.alias):
            after = gettext("The code declares it; it stays removed until it is reset.")
        else:
            after = gettext("This cannot be undone.")
        asked = self.say(_("Remove “%(name)s”? The jobs that it has enqueued stay."))
        return f"{asked} {after}"

    def perform(self, fields: dict[str, Any]) -> None:
        """Remove it."""
        self.client.schedule_remove([self.name])

    def next_url(self) -> str:
        """Return the list's URL: the recurring job's page is gone."""
        if self.request.method == "POST":
            return self.links.url("recurring_changelist")
        return super().next_url()


class Reset(ScheduleAction):
    """Resets a recurring job to its declaration, even if it was removed."""

    verb = "reset"
    label = _("Reset to the declaration")
    danger = True
    prompt = _(
        "Reset “%(name)s” to its declaration in the code? Changes by operators are lost, "
        "and if it was paused or removed, it starts again."
    )
    success = _("Reset “%(name)s” to its declaration in the code.")

    def check(self) -> None:
        """Raise Missing if the code does not declare it."""
        self.client.schedule_get(self.name)  # Fails if the server is down.
        if self.name not in declared_in_code(self.alias):
            raise Missing(gettext("The code declares no recurring job with this id."))

    def perform(self, fields: dict[str, Any]) -> None:
        """Reset it."""
        declared.reset(self.alias, self.name)


class EditForm(forms.Form):
    """The parts of a schedule that can be changed.

    The initial values travel along, so that only the fields that the user has edited are
    written, whatever another user has changed meanwhile.
    """

    every = DurationField(
        label=_("Every"),
        required=False,
        help_text=_(
            "The interval, such as 90 s, 15 min or 1 h 30 min. Empty for a cron schedule."
        ),
    )
    cron = forms.CharField(
        label=_("Cron"),
        required=False,
        max_length=255,
        help_text=_(
            "Minute, hour, day of the month, month, day of the week, such as "
            "0 6 * * mon-fri. Empty for an interval."
        ),
    )
    timezone = forms.CharField(
        label=_("Time zone"),
        required=False,
        max_length=255,
        help_text=_("For cron, such as Europe/Berlin."),
    )
    missed = forms.ChoiceField(label=_("Missed ticks"), choices=list(MISSED.items()))
    queue = forms.CharField(label=_("Queue"), max_length=1000, strip=False)
    priority = PriorityField(label=_("Priority"))
    retries = forms.IntegerField(label=_("Retries"), min_value=0)
    tags = LinesField(label=_("Tags"), required=False, help_text=_("One per line."))

    def __init__(self, *args: Any, has_retries: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        if not has_retries:
            del self.fields["retries"]
        for field in self.fields.values():
            field.show_hidden_initial = True

    def clean_queue(self) -> str:
        """Return the queue's name as the core takes it."""
        return as_core_takes(arguments.queue, self.cleaned_data["queue"])

    def clean_tags(self) -> list[str]:
        """Return the tags as the core takes them."""
        return as_core_takes(arguments.tags, self.cleaned_data["tags"])

    def clean(self) -> dict[str, Any]:
        """Check that there is either an interval or a cron expression."""
        fields = super().clean() or {}
        every, cron = fields.get("every"), fields.get("cron")
        if self.errors:
            return fields
        if (every is None) == (not cron):
            raise ValidationError(
                gettext("Give either an interval or a cron expression.")
            )
        if every is not None:
            when = {"every": every, "missed": fields["missed"]}
        else:
            zone = fields["timezone"] or None
            when = {"cron": cron, "timezone": zone, "missed": fields["missed"]}
        try:
            Timetable.of(gettext("This"), when)
        except InvalidOption as error:
            self.add_error("cron" if cron else "every", error.detail)
        return fields

    def changes(self) -> dict[str, Any]:
        """Return the fields that the user has edited, for RecurringHandle.update."""
        fields, changed = self.cleaned_data, set(self.changed_data)
        if fields["every"] is not None:
            changed -= {"cron", "timezone"}
        else:
            changed -= {"every"}
            if changed & {"cron", "timezone"}:
                changed |= {"cron"} | ({"timezone"} if fields["timezone"] else set())
        return {name: fields[name] for name in self.fields if name in changed}


class Edit(ScheduleAction):
    """Edits a recurring job; this overrides its declaration until it is reset."""

    verb = "edit"
    label = _("Save")
    form_class = EditForm

    prompt = _(
        "A changed interval keeps its rhythm; a changed cron expression starts over. If "
        "the code declares the job, it is marked as edited until it is reset."
    )

    def initial(self) -> dict[str, Any]:
        """Return the schedule before the action."""
        schedule = self.schedule
        return {
            "every": schedule.every,
            "cron": schedule.cron or "",
            "timezone": schedule.timezone or "" if schedule.cron else "",
            "missed": schedule.missed,
            "queue": schedule.queue,
            "priority": schedule.priority,
            "retries": schedule.retries,
            "tags": schedule.tags,
        }

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form, without retries for schedules whose ticks run in Python."""
        schedule = self.schedule
        self.form = EditForm(
            *args, has_retries=not schedule.klass.endswith(f":{WORD}"), **options
        )
        return self.form

    def act(self, fields: dict[str, Any]) -> str:
        """Change the edited fields."""
        changes = self.form.changes()
        if not changes:
            raise InvalidOption(gettext("Nothing has changed."), enqueues=False)
        RecurringHandle(self.alias, self.name).update(**changes)
        said = ", ".join(
            f"{self.form.fields[name].label}: {self.shown(name, value)}"
            for name, value in changes.items()
        )
        return self.say(_("Changed “%(name)s”: %(changes)s."), changes=said)

    def shown(self, name: str, value: Any) -> str:
        """Return a new value as text."""
        if name == "every":
            return duration_text(value)
        return ", ".join(value) if name == "tags" else str(value)
