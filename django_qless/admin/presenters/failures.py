"""Failure groups as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_qless.admin.bulk import bulk_url

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.core import FailureGroup


@dataclass(frozen=True)
class GroupRow:
    """A failure group as a table shows it."""

    group: FailureGroup
    url: str
    job_url: str
    queue_url: str
    retry_url: str
    cancel_url: str
    message: str | None
    """How the message of the job that failed last begins; None: not for this user."""


def group_rows(groups: Iterable[FailureGroup], view: View) -> list[GroupRow]:
    """Return what a table shows of these groups."""
    return [_row(group, view) for group in groups]


def _row(group: FailureGroup, view: View) -> GroupRow:
    url, back = view.links.url, view.links.url("failure_changelist")
    return GroupRow(
        group=group,
        url=url("failure_change", group.name),
        job_url=url("job_change", group.jid),
        queue_url=url("queue_change", group.queue) if group.queue else "",
        retry_url=bulk_url(view.links, "retry", back=back, group=group.name),
        cancel_url=bulk_url(view.links, "cancel", back=back, group=group.name),
        message=said(group) if view.may.data else None,
    )


def said(group: FailureGroup) -> str:
    """Return the line of the latest message that says most: of a traceback, the last."""
    lines = [line.strip() for line in group.message_head.splitlines() if line.strip()]
    if not lines or lines[0].startswith("Traceback (most recent"):
        return group.message_end
    return lines[0]


def verbs() -> list[tuple[str, str, bool]]:
    """Return the verb, the text and the danger of what can be done to failed jobs."""
    return [
        ("retry", _("Retry all"), False),
        ("cancel", _("Cancel all"), True),
        ("move", _("Move all"), False),
        ("tag", _("Tag all"), False),
    ]
