"""The payloads of an entity, as far as they fit on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from django_qless.admin.components.payload import pretty_value
from django_qless.admin.formatting import Text, head, number
from django_qless.job_types.redaction import may_show_payloads

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.core.commands.entities import EntityRecord

ROWS = 50
EACH = 2 * 1024
"""Bytes of HTML of one payload; all of it is on a separate page."""

LISTS: dict[str, _StrOrPromise] = {
    "waiting": _("Waiting"),
    "running": _("In the present run"),
    "dying": _("Dead"),
}
"""The payloads of an entity, by the names that the core has for them."""


class PayloadRow(NamedTuple):
    """A payload as a row of a table."""

    position: int
    """From 0 on, in the order in which a run gets them."""
    score: str
    text: Text | None
    """None if it is sensitive."""


def payload_rows(
    record: EntityRecord, which: str, offset: int, most: int = EACH
) -> list[PayloadRow]:
    """Return the payloads of one of LISTS that the record has, from an offset on."""
    found: Sequence[tuple[Any, Any]] = getattr(record, which)
    shown = is_shown(record)
    return [
        PayloadRow(
            offset + at,
            score_text(score),
            head(pretty_value(payload), most) if shown else None,
        )
        for at, (score, payload) in enumerate(found)
    ]


def is_shown(record: EntityRecord) -> bool:
    """Return whether people may see the payloads: no code says that they are sensitive."""
    known = record.job or record.dead or {}
    return may_show_payloads(str(known.get("klass", "")), str(known.get("data", "")))


def lengths(record: EntityRecord) -> dict[str, int]:
    """Return how many payloads each of LISTS has."""
    job, dead = record.job or {}, record.dead or {}
    return {
        "waiting": int(job.get("payloads", 0)),
        "running": int(job.get("taken", 0)),
        "dying": int(dead.get("payloads", 0)),
    }


def score_text(score: Any) -> str:
    """Return a score as people write numbers: whole ones without a point."""
    value = float(score)
    if value.is_integer() and abs(value) < 2**53:
        return number(int(value))
    return repr(value)
