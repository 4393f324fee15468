"""Texts and links of the changes of entities, by their names in operations.entity_run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_qless.admin.actions.bulk_texts import BulkLink, Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.admin.views import View


class EntityForm(forms.Form):
    """Nothing is asked beside whether to do it."""


NOTHING = _("There is no such entity now: there is nothing to do.")

_texts = partial(Texts, form_class=EntityForm, nothing=NOTHING)

TEXTS: dict[str, Texts] = {
    "run": _texts(
        _("Run now"),
        ngettext_lazy("Run %(count)s entity now?", "Run %(count)s entities now?", "n"),
        ngettext_lazy("%(count)s entity runs now.", "%(count)s entities run now.", "n"),
        _("Those that wait for a later time are due at once; the retry count stays."),
        of_all=_("Run all now"),
    ),
    "kill": _texts(
        _("Kill"),
        ngettext_lazy("Kill %(count)s entity?", "Kill %(count)s entities?", "n"),
        ngettext_lazy("Killed %(count)s entity.", "Killed %(count)s entities.", "n"),
        _(
            "All their payloads go to the dead at once, as if their retries were used "
            "up. They can be brought back."
        ),
        of_all=_("Kill all failed"),
        danger=True,
    ),
    "delete": _texts(
        _("Delete"),
        ngettext_lazy("Delete %(count)s entity?", "Delete %(count)s entities?", "n"),
        ngettext_lazy("Deleted %(count)s entity.", "Deleted %(count)s entities.", "n"),
        _("Their payloads that wait are lost; dead ones stay. This cannot be undone."),
        of_all=_("Delete all failed"),
        danger=True,
    ),
    "revive": _texts(
        _("Bring back"),
        ngettext_lazy(
            "Bring back %(count)s dead entity?",
            "Bring back %(count)s dead entities?",
            "n",
        ),
        ngettext_lazy(
            "Brought back %(count)s entity.", "Brought back %(count)s entities.", "n"
        ),
        _("They run now. Payloads join those that were pushed meanwhile."),
        of_all=_("Bring back all dead"),
    ),
    "delete-dead": _texts(
        _("Delete the dead"),
        ngettext_lazy(
            "Delete the dead payloads of %(count)s entity?",
            "Delete the dead payloads of %(count)s entities?",
            "n",
        ),
        ngettext_lazy(
            "Deleted the dead payloads of %(count)s entity.",
            "Deleted the dead payloads of %(count)s entities.",
            "n",
        ),
        _("Payloads that wait stay. This cannot be undone."),
        of_all=_("Delete all dead"),
        danger=True,
    ),
}

OF_A_LIST: dict[str, tuple[str, ...]] = {
    "fresh": ("run", "kill", "delete"),
    "retrying": ("run", "kill", "delete"),
    "running": (),
    "dead": ("revive", "delete-dead"),
}
"""What can be done with the selected entities of each list."""

OF_ALL = {**OF_A_LIST, "fresh": ("run",)}
"""What can be done with all: `run` is for all that are delayed, failed or not."""


def selection_buttons(tab: str) -> list[tuple[str, Texts]]:
    """Return what can be done with the selected entities of a list."""
    return [(change, TEXTS[change]) for change in OF_A_LIST[tab]]


def links_of_all(view: View, changes: Sequence[str]) -> list[BulkLink]:
    """Return links to these changes of all entities that they are for."""
    return _links(view, changes, {"next": view.here}, of_all=True)


def links_of_one(
    view: View, entity: str, changes: Sequence[str], back: str
) -> list[BulkLink]:
    """Return links to these changes of one entity."""
    return _links(view, changes, {"entity": entity, "next": back})


def _links(
    view: View, changes: Sequence[str], query: dict[str, str], *, of_all: bool = False
) -> list[BulkLink]:
    if not view.may.jobs:
        return []
    found = []
    for change in changes:
        texts = TEXTS[change]
        url = view.links.url("entity_bulk", view.name, verb=change, **query)
        label = texts.of_all if of_all else texts.label
        found.append(BulkLink(str(label), url, texts.danger))
    return found
