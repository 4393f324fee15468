"""Limits that hold jobs back, as the pages of queues and jobs show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from django_qless.admin.formatting import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_qless.core.commands.queues import QueueLimit


@dataclass(frozen=True)
class HeldBackRow:
    """A limit as a row of the table of a queue's page."""

    limit: QueueLimit
    shows_keys: bool
    """Whether the reader may see what stands in jobs."""

    @property
    def name(self) -> str:
        """The limit in words."""
        limit = self.limit
        key = limit.key if self.shows_keys else _("hidden")
        return limit_text(limit.kind, limit.type, key)

    @property
    def held_back(self) -> str:
        """How many jobs it holds back; what waits for the queue's own stays in the queue."""
        limit = self.limit
        return "–" if limit.kind == "queue" else number(limit.held_back)

    @property
    def used(self) -> str:
        """How far it is used: running and started jobs, and how many there may be."""
        limit, parts = self.limit, []
        if limit.most is not None:
            values = {"running": number(limit.running or 0), "most": number(limit.most)}
            parts.append(_("%(running)s of %(most)s running") % values)
        if limit.rate is not None:
            started = {
                "started": number(limit.started or 0),
                "most": number(limit.rate[0]),
            }
            started["seconds"] = f"{limit.rate[1]:g}"
            parts.append(
                _("%(started)s of %(most)s started in %(seconds)s s") % started
            )
        return ", ".join(parts)


def limit_text(kind: str, job_type: str, key: str) -> str:
    """Return a limit in words."""
    words = {
        "type": _("Job type %(type)s"),
        "key": _("Key %(key)s of %(type)s"),
        "fair": _("In turns: tenant %(key)s"),
        "queue": _("This queue"),
    }
    return words[kind] % {"type": job_type, "key": key}


def held_back_text(limits: Mapping[str, Any] | None, *, shows_keys: bool) -> str:
    """Return what holds a job back, in words; "" if nothing does."""
    by = (limits or {}).get("held_back_by")
    if not by:
        return ""
    key = by.get("key", "") if shows_keys else _("hidden")
    return limit_text(by["kind"], by.get("type", ""), key)
