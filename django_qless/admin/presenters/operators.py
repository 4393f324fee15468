"""What operators did to a thing, as Django's log has it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType

if TYPE_CHECKING:
    from django.db.models import Model

MOST = 20


class Deed(NamedTuple):
    """An entry of Django's log."""

    at: datetime
    who: str
    what: str


def deeds(model: type[Model], name: str, most: int = MOST) -> list[Deed]:
    """Return what was done to the thing of this name, the latest first.

    Some sites' log has millions of entries: those of a model that has few are found by
    the index of their type.
    """
    kind = ContentType.objects.get_for_model(model)
    entries = (
        LogEntry.objects.filter(content_type=kind, object_id=name)
        .select_related("user")
        .order_by("-action_time")[:most]
    )
    return [
        Deed(entry.action_time, entry.user.get_username(), entry.get_change_message())
        for entry in entries
    ]
