"""The changes that can be made to many jobs, by name: one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_qless.conf import routing
from django_qless.core import BulkResult
from django_qless.core.states import HELD

if TYPE_CHECKING:
    from django_qless.core import Brief, Client


@dataclass(frozen=True)
class Change:
    """A change that can be made to each of many jobs."""

    name: str
    apply: Callable[[Client, Sequence[str], Any, str], BulkResult]
    """Makes it: of these jobs, to this value, in the namespace of this name."""
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


def _move(client: Client, jids: Sequence[str], queue: str, name: str) -> BulkResult:
    """Move jobs to a queue, which may be in another namespace, or be split."""
    targets: dict[str, list[str]] = {}
    for jid in jids:
        targets.setdefault(routing.elsewhere(name, queue, jid), []).append(jid)
    done: list[str] = []
    refused: dict[str, str] = {}
    for target, some in targets.items():
        each = (
            client.send_each(target, some, queue)
            if target
            else client.move_each(some, queue)
        )
        done += each.done
        refused |= each.refused
    return BulkResult(done, refused)


CHANGES: dict[str, Change] = {
    change.name: change
    for change in (
        Change(
            "retry",
            lambda client, jids, _value, _name: client.revive_each(jids),
            wants=lambda brief, _value: brief.state == "failed",
            state="failed",
            oldest_first=True,
            renews=True,
        ),
        Change(
            "cancel",
            lambda client, jids, _value, _name: client.cancel_each(jids),
            wants=lambda brief, _value: brief.state != "complete",
            dependents_first=True,
        ),
        Change(
            "move",
            _move,
            renews=True,
        ),
        Change(
            "priority",
            lambda client, jids, value, _name: client.priority_each(jids, value),
            wants=lambda brief, value: brief.priority != value,
        ),
        Change(
            "tag",
            lambda client, jids, value, _name: client.tag_each(jids, value),
            wants=lambda brief, value: value not in brief.tags,
            displaces=False,
        ),
        Change(
            "untag",
            lambda client, jids, value, _name: client.untag_each(jids, value),
            wants=lambda brief, value: value in brief.tags,
        ),
        Change(
            "track",
            lambda client, jids, _value, _name: client.track_each(jids),
            wants=lambda brief, _value: not brief.tracked,
            displaces=False,
        ),
        Change(
            "untrack",
            lambda client, jids, _value, _name: client.untrack_each(jids),
            wants=lambda brief, _value: brief.tracked,
            displaces=False,
        ),
        Change(
            "timeout",
            lambda client, jids, _value, _name: client.timeout_each(jids),
            wants=lambda brief, _value: brief.state in HELD,
            renews=True,
        ),
    )
}
