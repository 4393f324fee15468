"""The page of an entity: its state, its last error, its payloads in order."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _

from django_qless.admin import formatting, permissions
from django_qless.admin.actions.entity_texts import links_of_one
from django_qless.admin.components import entity_payloads as payloads
from django_qless.admin.components import payload
from django_qless.admin.components.traceback import trace
from django_qless.admin.formatting import WHOLE, tail
from django_qless.admin.listing import listing
from django_qless.admin.views import Crumb, Missing, Page
from django_qless.operations.entity_run import WAITING

if TYPE_CHECKING:
    from django.http import HttpResponseBase

    from django_qless.core import Brief
    from django_qless.core.commands.entities import EntityRecord


class _EntityPage(Page):
    @property
    def entity(self) -> str:
        """The id of the entity, "" if the URL names none."""
        return self.request.GET.get("entity", "")

    def answer(self) -> HttpResponseBase:
        """Return the page; without an entity (of another alias), the list."""
        if not self.entity:
            return HttpResponseRedirect(self.links.url("entity_change", self.name))
        return super().answer()

    def read(self, offset: int, count: int) -> EntityRecord:
        """Return the entity with some of its payloads. Raises Missing."""
        found = self.client.entity(self.name, self.entity, offset, count)
        if found.job is None and found.dead is None:
            raise Missing(
                _(
                    "There is no entity “%(entity)s” in the queue “%(queue)s”: all that "
                    "was pushed for it is processed or deleted, or nothing ever was."
                )
                % {"entity": self.entity, "queue": self.name}
            )
        return found

    @property
    def title(self) -> str:
        """The headline; the id of the entity stands below it."""
        return _("Entity")

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs: all queues, this one, the entity."""
        url = self.links.url
        return [
            Crumb(_("Entities"), url("entity_changelist")),
            Crumb(self.name, url("entity_change", self.name)),
            Crumb(self.entity),
        ]

    @property
    def own_url(self) -> str:
        """The page of the entity."""
        return self.links.url("entity_show", self.name, entity=self.entity)


class EntityPage(_EntityPage):
    """The page of an entity; `part` selects which of its payloads are listed."""

    template = "entities/entity.html"

    @cached_property
    def found(self) -> EntityRecord:
        """The entity, with the payloads that are shown. Raises Missing."""
        return self.read(self.offset, payloads.ROWS)

    @cached_property
    def part(self) -> str:
        """One of payloads.LISTS; by default the first one that has payloads."""
        asked = self.request.GET.get("part", "")
        if asked in payloads.LISTS:
            return asked
        lengths = payloads.lengths(self.found)
        return next((name for name, number in lengths.items() if number), "waiting")

    def content(self) -> dict[str, Any]:
        """Return the entity, with two calls."""
        found = self.found
        job, dead = found.job or {}, found.dead or {}
        brief = next(iter(self.client.brief([found.jid])), None) if job else None
        return {
            "subtitle": formatting.visible(self.entity),
            "found": found,
            "job": job,
            "dead": dead,
            "klass": job.get("klass") or dead.get("klass", ""),
            "state": job.get("state", "dead"),
            "is_running": job.get("state") == "running",
            "waits": job.get("state") in WAITING,
            "due_in": max(0.0, job.get("due", 0.0) - self.now),
            "brief": brief,
            "buttons": self.buttons(brief),
            **self.row(),
            **self.failure(),
            **self.payloads(),
        }

    def row(self) -> dict[str, str]:
        """Return the row that the entity is, if it is one, with its page."""
        known = self.found.job or self.found.dead or {}
        try:
            data = json.loads(known.get("data", ""))
        except ValueError:
            return {}
        if not self.may.data:
            return {}
        text, url = payload.row_of(data, known.get("klass", ""), self)
        return {"row": text, "row_url": url}

    def buttons(self, brief: Brief | None) -> list[Any]:
        """Return links to what can be done to the entity in its state."""
        changes: list[str] = []
        if brief is not None and brief.state in WAITING:
            changes += ["run"] if brief.state == "scheduled" else []
            changes += ["kill", "delete"]
        if self.found.dead is not None:
            changes = ["revive", *changes, "delete-dead"]
        back = self.links.url("entity_change", self.name)
        return links_of_one(self, self.entity, changes, back)

    def failure(self) -> dict[str, Any]:
        """Return the last error of what is queued, and that of what is dead.

        One of them is shown with its calls, the other one as text.
        """
        failure, dead = (self.found.job or {}).get("failure") or {}, self.found.dead
        content: dict[str, Any] = {"failure": failure}
        if self.may.data:
            dead_message = tail(str((dead or {}).get("message", "")))
            message = tail(str(failure.get("message", ""))) if failure else dead_message
            content["message"], content["trace"] = message, trace(message.text)
            content["dead_message"] = dead_message if failure else None
        return content

    def payloads(self) -> dict[str, Any]:
        """Return the payloads of the chosen list, for those who may view data."""
        found, part = self.found, self.part
        lengths = payloads.lengths(found)
        own = self.links.url
        content: dict[str, Any] = {
            "part": part,
            "parts": [
                (
                    name,
                    words,
                    lengths[name],
                    own("entity_show", self.name, entity=self.entity, part=name),
                )
                for name, words in payloads.LISTS.items()
            ],
        }
        if self.may.data:
            rows = payloads.payload_rows(found, part, self.offset)
            content["listing"] = listing(self, rows, lengths[part])
        return content


class EntityText(_EntityPage):
    """The page of one payload, whole: that at an offset of a list."""

    template = "entities/payload.html"
    permission = permissions.DATA

    def content(self) -> dict[str, Any]:
        """Return the payload that the query names. Raises Missing."""
        part = self.request.GET.get("part", "waiting")
        found = self.read(self.offset, 1)
        rows = (
            payloads.payload_rows(found, part, self.offset, WHOLE)
            if part in payloads.LISTS
            else []
        )
        if not rows:
            raise Missing(_("The entity has no such payload now."))
        return {"subtitle": formatting.visible(self.entity), "row": rows[0]}

    def crumbs(self) -> list[Crumb]:
        """Return the breadcrumbs."""
        return [
            *super().crumbs()[:-1],
            Crumb(self.entity, self.own_url),
            Crumb(_("Payload")),
        ]
