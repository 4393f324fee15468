"""Config: the options of a namespace, a page for each, and its actions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless import models
from django_qless.admin import permissions
from django_qless.admin.actions.base import Action
from django_qless.admin.components.audit_log import audit_entries
from django_qless.admin.components.fields import value_field
from django_qless.admin.components.options import OptionRow, option_row, option_rows
from django_qless.admin.listing import listing
from django_qless.admin.site import Route
from django_qless.admin.views import Missing, Page, View
from django_qless.conf import config_sync, routing

ROWS = 100


def option_of(view: View) -> OptionRow:
    """Return the option that a URL names. Raises Missing."""
    declared = config_sync.declared_options(view.alias)
    row = option_row(view.name, view.client.config_all(), declared)
    if row is None:
        raise Missing(gettext("There is no option “%s”.") % view.name)
    return row


class OptionForm(forms.Form):
    """The value of one option."""

    def __init__(self, option: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["value"] = value_field(option, label=_("Value"))


class OptionList(Page):
    """The page of all options: the core's, then those of queues and the project."""

    template = "config.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the options."""
        declared = config_sync.declared_options(self.alias)
        rows = list(option_rows(self.client.config_all(), declared))
        shown = rows[self.offset : self.offset + ROWS]
        return {"listing": listing(self, shown, len(rows))}


class OptionPage(Page):
    """The page of an option, with a form to change it."""

    template = "option.html"

    def content(self) -> dict[str, Any]:
        """Return the option, its form and its audit log."""
        row = option_of(self)
        return {
            "option": row,
            "form": OptionForm(self.name, initial={"value": row.value}),
            "audit_log": audit_entries(models.Option, self.name, 5),
        }


class OptionAction(Action):
    """Changes one option."""

    permission = permissions.CONFIG

    @cached_property
    def option(self) -> OptionRow:
        """The option before the action. Raises Missing."""
        return option_of(self)

    @cached_property
    def words(self) -> dict[str, Any]:
        """Values for messages: the option before the action."""
        before = self.option.value or gettext("not set")
        return {"option": self.name, "before": before}

    def usual_next(self) -> str:
        """Return the page of the option, or if that is gone, the list."""
        try:
            option_of(self)
        except Missing:
            return self.links.url("option_changelist")
        return super().usual_next()


class SetOption(OptionAction):
    """Sets an option, over the value in the setting QLESS."""

    verb = "set"
    label = _("Set")
    prompt = _(
        "Set the option “%(option)s”? All workers apply it immediately, and it "
        "overrides the value in the setting QLESS."
    )
    success = _("The option %(option)s is %(value)s now; it was %(before)s.")

    def initial(self) -> dict[str, Any]:
        """Return the value in force."""
        return {"value": self.option.value}

    def make_form(self, *args: Any, **options: Any) -> forms.Form:
        """Return a form with the field for the option."""
        return OptionForm(self.name, *args, **options)

    def perform(self, fields: dict[str, Any]) -> None:
        """Set it."""
        routing.check_option(self.alias, self.name, fields["value"])
        self.client.config_set(self.name, fields["value"])


class ResetOption(OptionAction):
    """Resets an option to the value in the setting QLESS, or to its default."""

    verb = "reset"
    label = _("Reset")

    def question(self) -> str:
        """Return the question, with the new value."""
        row = self.option
        if row.declared is not None:
            after = gettext("It returns to %s, the value in the setting QLESS.")
            after %= row.declared
        elif row.default:
            after = gettext("It returns to its default, %s.") % row.default
        else:
            after = gettext("It will have no value.")
        asked = self.say(_("Reset the option “%(option)s”, which is %(before)s?"))
        return f"{asked} {after}"

    def act(self, fields: dict[str, Any]) -> str:
        """Reset it."""
        config_sync.reset([self.name], self.alias)
        value = self.client.config_get(self.name)
        if value is None:
            value = self.option.default
        return self.say(
            _("The option %(option)s is %(value)s again; it was %(before)s."),
            value=value or gettext("not set"),
        )


ROUTES = (
    Route("", "changelist", OptionList),
    Route("<str:segment>/change/", "change", OptionPage),
    Route.of(SetOption),
    Route.of(ResetOption),
)
