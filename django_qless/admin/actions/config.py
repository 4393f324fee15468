"""What can be done with an option: set it, or give it back its default."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless import conf, declared
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.actions.option_fields import value_field
from django_qless.admin.presenters.options import OptionRow, option_row
from django_qless.admin.views import Missing, View


def option_of(view: View) -> OptionRow:
    """Return the option that a URL names; raise Missing if there is none."""
    row = option_row(
        view.name, view.client.config_all(), conf.alias(view.alias).declared
    )
    if row is None:
        raise Missing(_("There is no option “%s”.") % view.name)
    return row


class OptionForm(forms.Form):
    """The value of one option."""

    def __init__(self, option: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["value"] = value_field(option, label=_("Value"))


class _OptionAction(Action):
    permission = permissions.CONFIG

    def usual_next(self) -> str:
        """Return the page of the option, or if that is gone, the list."""
        try:
            option_of(self)
        except Missing:
            return self.links.url("option_changelist")
        return super().usual_next()


class SetOption(_OptionAction):
    """Sets an option; it wins over what the setting QLESS declares."""

    verb = "set"
    label = gettext_lazy("Set")

    def question(self) -> str:
        """Return what follows from it."""
        return _(
            "Set the option “%s”? All workers follow it at once, and it wins over what "
            "the setting QLESS declares."
        ) % (self.name)

    def initial(self) -> dict[str, Any]:
        """Return the value that is in force."""
        return {"value": option_of(self).value}

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return a form with the field that the option wants."""
        return OptionForm(self.name, *args, **options)

    def act(self, fields: dict[str, Any]) -> str:
        """Set it."""
        before, value = option_of(self), fields["value"]
        self.client.config_set(self.name, value)
        return _("The option %(option)s is %(value)s now; it was %(before)s.") % {
            "option": self.name,
            "value": value,
            "before": before.value or _("not set"),
        }


class ResetOption(_OptionAction):
    """Gives an option back what the setting QLESS declares, or else its default."""

    verb = "reset"
    label = gettext_lazy("Reset")

    def question(self) -> str:
        """Return what the value will be."""
        row = option_of(self)
        if row.declared is not None:
            after = _("It becomes %s again, as the setting QLESS declares.")
            after %= row.declared
        elif row.default:
            after = _("It becomes %s again, its default.") % row.default
        else:
            after = _("It will have no value.")
        asked = _("Reset the option “%(option)s”, which is %(value)s?") % {
            "option": self.name,
            "value": row.value or _("not set"),
        }
        return f"{asked} {after}"

    def act(self, fields: dict[str, Any]) -> str:
        """Reset it."""
        before = option_of(self)
        declared.reset([self.name], self.alias)
        after = self.client.config_get(self.name)
        if after is None:
            after = before.default
        return _("The option %(option)s is %(value)s again; it was %(before)s.") % {
            "option": self.name,
            "value": after or _("not set"),
            "before": before.value or _("not set"),
        }
