"""Changing a recurring job: when it ticks, and what it puts."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin.actions.recurring import OnSchedule
from django_qless.admin.presenters.schedule import MISSED
from django_qless.admin.spans import SpanField, written
from django_qless.core import BadArgument, arguments
from django_qless.exceptions import InvalidOption
from django_qless.schedules.handle import RecurringHandle
from django_qless.schedules.ticks import WORD
from django_qless.schedules.timetable import Timetable


class EditForm(forms.Form):
    """What of a schedule can be changed.

    What each field began with travels along, so that only what the user has changed is
    changed, whatever somebody else has changed meanwhile.
    """

    every = SpanField(
        label=gettext_lazy("Every"),
        required=False,
        help_text=gettext_lazy(
            "From tick to tick, such as 90 s, 15 min or 1 h 30 min. Empty if it ticks by "
            "cron."
        ),
    )
    cron = forms.CharField(
        label=gettext_lazy("Cron"),
        required=False,
        max_length=255,
        help_text=gettext_lazy(
            "Minute, hour, day of the month, month, day of the week, such as "
            "0 6 * * mon-fri. Empty if it ticks every so often."
        ),
    )
    timezone = forms.CharField(
        label=gettext_lazy("Time zone"),
        required=False,
        max_length=255,
        help_text=gettext_lazy("Of cron, such as Europe/Berlin."),
    )
    missed = forms.ChoiceField(
        label=gettext_lazy("Missed ticks"), choices=list(MISSED.items())
    )
    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=1000, strip=False)
    priority = forms.FloatField(label=gettext_lazy("Priority"))
    retries = forms.IntegerField(label=gettext_lazy("Retries"), min_value=0)
    tags = forms.CharField(
        label=gettext_lazy("Tags"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("One in each line."),
    )

    def __init__(self, *args: Any, has_retries: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        if not has_retries:
            del self.fields["retries"]
        for field in self.fields.values():
            field.show_hidden_initial = True

    def clean_queue(self) -> str:
        """Return the queue's name as the core takes it."""
        try:
            return arguments.queue(self.cleaned_data["queue"])
        except BadArgument as error:
            raise ValidationError(str(error)) from None

    def clean_priority(self) -> int | float:
        """Return a whole number as an int."""
        value: float = self.cleaned_data["priority"]
        return int(value) if value.is_integer() else value

    def clean_tags(self) -> list[str]:
        """Return the lines."""
        lines = [line.strip() for line in self.cleaned_data["tags"].splitlines()]
        try:
            return arguments.tags([line for line in dict.fromkeys(lines) if line])
        except BadArgument as error:
            raise ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        """Check that it ticks either every so often or by cron."""
        fields = super().clean() or {}
        every, cron = fields.get("every"), fields.get("cron")
        if self.errors:
            return fields
        if (every is None) == (not cron):
            raise ValidationError(
                _("Say either every how long it ticks, or give a cron text.")
            )
        if every is not None:
            when = {"every": every, "missed": fields["missed"]}
        else:
            zone = fields["timezone"] or None
            when = {"cron": cron, "timezone": zone, "missed": fields["missed"]}
        try:
            Timetable.of(_("This"), when)
        except InvalidOption as error:
            self.add_error("cron" if cron else "every", error.detail)
        return fields

    def changes(self) -> dict[str, Any]:
        """Return what the user has changed, as RecurringHandle.update takes it."""
        fields, changed = self.cleaned_data, set(self.changed_data)
        if fields["every"] is not None:
            changed -= {"cron", "timezone"}
        else:
            changed -= {"every"}
            if changed & {"cron", "timezone"}:
                changed |= {"cron"} | ({"timezone"} if fields["timezone"] else set())
        return {name: fields[name] for name in self.fields if name in changed}


class Edit(OnSchedule):
    """Changes it as an operator: what the code declares is left until it is reset."""

    verb = "edit"
    label = gettext_lazy("Save")
    form_class = EditForm

    def question(self) -> str:
        """Return what follows from it."""
        return _(
            "A changed interval keeps the rhythm, a changed cron begins anew. What the "
            "code declares is marked as edited and stays so until it is reset."
        )

    def initial(self) -> dict[str, Any]:
        """Return it as it is."""
        schedule = self.schedule
        return {
            "every": schedule.every,
            "cron": schedule.cron or "",
            "timezone": schedule.timezone or "" if schedule.cron else "",
            "missed": schedule.missed,
            "queue": schedule.queue,
            "priority": schedule.priority,
            "retries": schedule.retries,
            "tags": "\n".join(schedule.tags),
        }

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return the form; of ticks that Python makes the code says the retries."""
        schedule = self.schedule
        self.form = EditForm(
            *args, has_retries=not schedule.klass.endswith(f":{WORD}"), **options
        )
        return self.form

    def act(self, fields: dict[str, Any]) -> str:
        """Change it; return what was changed."""
        changes = self.form.changes()
        if not changes:
            raise InvalidOption(_("Nothing is changed."))
        RecurringHandle(self.alias, self.name).update(**changes)
        said = ", ".join(
            f"{self.form.fields[name].label}: {self.shown(name, value)}"
            for name, value in changes.items()
        )
        return _("Changed “%(name)s”: %(changes)s.") % {
            "name": self.name,
            "changes": said,
        }

    def shown(self, name: str, value: Any) -> str:
        """Return a new value for people."""
        if name == "every":
            return written(value)
        return ", ".join(value) if name == "tags" else str(value)
