"""The audit log: what operators did, in Django's own log of the admin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

from django_qless.conf import DEFAULT_ALIAS

if TYPE_CHECKING:
    from django.db.models import Model

    from django_qless.admin.views import View


class AuditEntry(NamedTuple):
    """An entry as a page shows it."""

    at: datetime
    user: str
    message: str


def audit_entries(model: type[Model], name: str, most: int = 20) -> list[AuditEntry]:
    """Return the entries about one object, the latest first.

    Some sites' log has millions of entries: those of a model that has few are found by
    the index of their type.
    """
    content_type = ContentType.objects.get_for_model(model)
    entries = (
        LogEntry.objects.filter(content_type=content_type, object_id=name)
        .select_related("user")
        .order_by("-action_time")[:most]
    )
    return [
        AuditEntry(
            entry.action_time, entry.user.get_username(), entry.get_change_message()
        )
        for entry in entries
    ]


def record(
    view: View, objects: Sequence[Model], message: str, *, title: str = ""
) -> LogEntry | None:
    """Write an entry about each of these objects; return that of a single one.

    `title` names an entry about several things, which have no page to link to.
    """
    single = len(objects) == 1
    log: Any = LogEntry.objects
    entry = log.log_actions(
        user_id=view.request.user.pk,
        queryset=objects,
        action_flag=CHANGE,
        change_message=storable(with_alias(view, message)),
        single_object=single,
    )
    if not single:
        return None
    if title:
        LogEntry.objects.filter(pk=entry.pk).update(object_id=None, object_repr=title)
    found: LogEntry = entry
    return found


def with_alias(view: View, message: str) -> str:
    """Return a message that names its alias, unless that is the default one."""
    return message if view.alias == DEFAULT_ALIAS else f"[{view.alias}] {message}"


def storable(text: str) -> str:
    """Return a text without what PostgreSQL cannot keep."""
    return text.replace("\0", "␀").encode(errors="replace").decode()
