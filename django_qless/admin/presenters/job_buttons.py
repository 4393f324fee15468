"""Which actions a job's page offers, by the job's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django_qless.admin.actions import jobs as actions
from django_qless.admin.actions.job_cancel import CancelJob
from django_qless.admin.actions.job_edit import EditJob

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.views import View
    from django_qless.core import Brief

BY_STATE: dict[str, tuple[type[actions.JobAction], ...]] = {
    "waiting": (actions.MoveJob, actions.ChangePriority, EditJob, CancelJob),
    "scheduled": (
        actions.RunJob,
        actions.MoveJob,
        actions.ChangePriority,
        EditJob,
        CancelJob,
    ),
    "depends": (
        actions.UndependJob,
        actions.MoveJob,
        actions.ChangePriority,
        EditJob,
        CancelJob,
    ),
    "running": (actions.TimeOutJob, actions.MoveJob, EditJob, CancelJob),
    "stalled": (actions.TimeOutJob, actions.MoveJob, EditJob, CancelJob),
    "failed": (actions.RetryJob, EditJob, actions.MoveJob, CancelJob),
    "complete": (EditJob,),
    "canceled": (EditJob,),
}
AT_ONCE = (actions.RetryJob, actions.RunJob, actions.TrackJob, actions.UntrackJob)
"""What needs no more words, and harms nothing."""


class Button(NamedTuple):
    """An action as a button."""

    label: _StrOrPromise
    url: str
    at_once: bool
    """Whether it is done with the click; else a page asks first."""
    danger: bool


def buttons(brief: Brief, view: View, *, has_data: bool = True) -> list[Button]:
    """Return what this user may do to a job now; nothing is offered in vain.

    `has_data`: whether its data are known, so that it can be put again.
    """
    if not view.may.jobs:
        return []
    track = actions.UntrackJob if brief.tracked else actions.TrackJob
    offered: list[type[actions.JobAction]] = [*BY_STATE.get(brief.state, ())]
    if brief.state != "canceled":
        offered += [actions.TagJob, track]
    elif brief.tracked:
        offered.append(track)
    if not brief.expires and actions.TimeOutJob in offered:
        offered.remove(actions.TimeOutJob)  # It was taken away already.
    # What cannot be undone comes last, away from the rest.
    offered.sort(key=lambda action: action is CancelJob)
    if not view.may.data or not has_data:
        offered.remove(EditJob)
    return [
        Button(
            action.label,
            view.links.url(f"job_{action.verb}", brief.jid),
            action in AT_ONCE,
            action.danger,
        )
        for action in offered
    ]
