"""The options of the namespace, and a page for each."""

from __future__ import annotations

from typing import Any

from django_qless import conf, models
from django_qless.admin.actions.config import (
    OptionForm,
    ResetOption,
    SetOption,
    option_of,
)
from django_qless.admin.listing import listing
from django_qless.admin.presenters.operators import deeds
from django_qless.admin.presenters.options import option_rows
from django_qless.admin.site import EntryAdmin, Route
from django_qless.admin.views import Page

COUNT = 100
DEEDS = 5


class Options(Page):
    """All options: those of the core, then those of queues and free ones."""

    template = "config.html"

    def content(self) -> dict[str, Any]:
        """Return a part of the options."""
        declared = conf.alias(self.alias).declared
        rows = list(option_rows(self.client.config_all(), declared))
        offset = self.number("offset")
        shown = rows[offset : offset + COUNT]
        end = offset + len(shown)
        following = end if shown and end < len(rows) else None
        return {
            "listing": listing(
                self, shown, offset=offset, total=len(rows), following=following
            )
        }


class OptionPage(Page):
    """One option, and a form to change it."""

    template = "option.html"

    def content(self) -> dict[str, Any]:
        """Return what is known of the option."""
        row = option_of(self)
        return {
            "option": row,
            "form": OptionForm(self.name, initial={"value": row.value}),
            "deeds": deeds(models.Option, self.name, DEEDS),
        }


class OptionAdmin(EntryAdmin):
    """Options."""

    routes = (
        Route("", "changelist", Options),
        Route("<str:segment>/change/", "change", OptionPage),
        Route("<str:segment>/set/", "set", SetOption),
        Route("<str:segment>/reset/", "reset", ResetOption),
    )
