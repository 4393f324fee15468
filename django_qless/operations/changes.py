"""The changes that can be made to many jobs, by name: one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_qless.core.states import HELD

if TYPE_CHECKING:
    from django_qless.core import Brief, BulkResult, Client


@dataclass(frozen=True)
class Change:
    """A change that can be made to each of many jobs."""

    name: str
    apply: Callable[[Client, Sequence[str], Any], BulkResult]
    """Makes it: of these jobs, to this value."""
    wants: Callable[[Brief, Any], bool] = lambda brief, value: True
    """Returns whether a job needs the change: it fits, and was not changed already."""
    state: str | None = None
    """The state that jobs must have, for a selection."""
    displaces: bool = True
    """True if a changed job leaves its place in the list in which it was found."""
    oldest_first: bool = False
    """True if the core finds the oldest job of a failure group fastest."""
    renews: bool = False
    """True if a changed job looks, by its state, like a new one."""
    dependents_first: bool = False
    """True if a job is refused until those that depend on it are changed."""


CHANGES: dict[str, Change] = {
    change.name: change
    for change in (
        Change(
            "retry",
            lambda client, jids, _value: client.revive_each(jids),
            wants=lambda brief, _value: brief.state == "failed",
            state="failed",
            oldest_first=True,
            renews=True,
        ),
        Change(
            "cancel",
            lambda client, jids, _value: client.cancel_each(jids),
            wants=lambda brief, _value: brief.state != "complete",
            dependents_first=True,
        ),
        Change(
            "move",
            lambda client, jids, queue: client.move_each(jids, queue),
            renews=True,
        ),
        Change(
            "priority",
            lambda client, jids, value: client.priority_each(jids, value),
            wants=lambda brief, value: brief.priority != value,
        ),
        Change(
            "tag",
            lambda client, jids, value: client.tag_each(jids, value),
            wants=lambda brief, value: value not in brief.tags,
            displaces=False,
        ),
        Change(
            "untag",
            lambda client, jids, value: client.untag_each(jids, value),
            wants=lambda brief, value: value in brief.tags,
        ),
        Change(
            "track",
            lambda client, jids, _value: client.track_each(jids),
            wants=lambda brief, _value: not brief.tracked,
            displaces=False,
        ),
        Change(
            "untrack",
            lambda client, jids, _value: client.untrack_each(jids),
            wants=lambda brief, _value: brief.tracked,
            displaces=False,
        ),
        Change(
            "timeout",
            lambda client, jids, _value: client.timeout_each(jids),
            wants=lambda brief, _value: brief.state in HELD,
            renews=True,
        ),
    )
}
