"""Changes of the entities of a queue: of one, those selected, or all of a kind.

They run as bulk changes of jobs do: see actions.bulk. The engine is operations.entity_run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.http import HttpResponseRedirect
from django.utils.translation import gettext, ngettext

from django_qless import models
from django_qless.admin import formatting
from django_qless.admin.actions.bulk import BulkAction
from django_qless.admin.actions.bulk_texts import Texts
from django_qless.admin.actions.entity_texts import TEXTS
from django_qless.admin.components.audit_log import record
from django_qless.admin.formatting import number
from django_qless.admin.views import Crumb
from django_qless.operations.entity_run import EntityRun, checked

if TYPE_CHECKING:
    from django.http import HttpResponseBase, QueryDict

NAMED = 20
"""Chosen entities that the page that asks and the audit log name."""


class EntityBulk(BulkAction):
    """Asks whether to change entities of a queue, changes them, shows the progress.

    `entity` names them, once for each; without any the change is for all of its kind.
    """

    run_class: ClassVar[Any] = EntityRun

    @property
    def texts(self) -> Texts:
        """The texts of the change."""
        return TEXTS[self.change_name]

    @property
    def title(self) -> str:
        """The headline: the change."""
        return str(self.texts.label) if self.change_name else gettext("Entities")

    def _parents(self) -> list[Crumb]:
        url = self.links.url
        return [
            Crumb(gettext("Entities"), url("entity_changelist")),
            Crumb(self.name, url("entity_change", self.name)),
        ]

    @property
    def _owner(self) -> dict[str, str]:
        return {**super()._owner, "queue": self.name}

    def ask_about(self, query: QueryDict) -> HttpResponseBase:
        """Ask about the entities that were named or ticked, or all."""
        self.change_name = checked(query.get("verb", ""))
        names = query.getlist("entity")
        if self.request.method == "POST" and not names:
            messages.warning(
                self.request, gettext("No entity is selected: nothing was done.")
            )
            return HttpResponseRedirect(self.next_url())
        run: Any = (
            EntityRun.on(self.change_name, self.name, names)
            if names
            else EntityRun.on_all(self.client, self.change_name, self.name)
        )
        return self.ask_with(run, self.texts.form_class())

    def content(self, run: Any) -> dict[str, Any]:
        """Return the template's context for the pages of a run."""
        names = list(run.chosen or ())
        show = self.links.url
        return {
            **super().content(run),
            "filters": [],
            "which": [
                (name, show("entity_show", self.name, entity=name))
                for name in names[:NAMED]
            ],
            "which_more": len(names) > NAMED,
        }

    def done_text(self, run: Any) -> str:
        """Return the message that says what was done, and what was left alone."""
        done = super().done_text(run)
        if not run.left_alone:
            return done
        left = ngettext(
            "%s needed no change, or is in a worker's hands.",
            "%s needed no change, or are in workers' hands.",
            run.left_alone,
        )
        return f"{done} {left % number(run.left_alone)}"

    def start_log(self, run: Any) -> int | None:
        """Write an entry to the audit log of the queue, which every step updates."""
        queue = models.Queue(name=self.name)
        entry = record(self, [queue], self.log_message(run, gettext("started")))
        return None if entry is None else entry.pk

    def which(self, run: Any) -> str:
        """Return a description of the entities that a run changes."""
        if run.chosen is None:
            return gettext("all")
        names = list(run.chosen)
        text = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        return formatting.visible(text)

    def usual_next(self) -> str:
        """Return the page of the queue's entities."""
        return self.links.url("entity_change", self.name)
