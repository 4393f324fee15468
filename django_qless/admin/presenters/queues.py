"""Queues as pages show them: how many jobs in each state, and where these are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import words
from django_qless.core.commands.queues import STATES

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.links import Links
    from django_qless.core.commands.queues import QueueCounts

#: In the order in which an operator asks: what could run, what runs, what must wait.
SHOWN = ("waiting", "running", "scheduled", "depends", "stalled", "recurring")
assert set(SHOWN) == set(STATES)

#: What a list of queues can be sorted by; numbers begin with the largest.
SORTS = ("lag", "name", "waiting", "running", "scheduled", "depends", "stalled")

#: In which order jobs of a state are listed.
ORDERS: dict[str, _StrOrPromise] = {
    "waiting": gettext_lazy("The next to be handed out comes first."),
    "running": gettext_lazy("The next whose lock ends comes first."),
    "scheduled": gettext_lazy("The next to fall due comes first."),
    "depends": gettext_lazy("They wait for other jobs; the first put comes first."),
    "stalled": gettext_lazy(
        "Their locks have ended without a sign of their workers; another worker takes "
        "them next."
    ),
    "recurring": gettext_lazy("What puts jobs into this queue, again and again."),
}


class InState(NamedTuple):
    """How many jobs of a queue are in a state."""

    state: str
    label: str
    number: int
    url: str


@dataclass(frozen=True)
class QueueRow:
    """A queue as a line of the list shows it."""

    counts: QueueCounts
    #: How long the oldest ready job has waited, in seconds.
    lag: float
    #: How many jobs are failed, of those that failed on the days that statistics have.
    failed: int
    url: str
    failed_url: str
    states: list[InState]
    #: Why it is paused, and by whom, as far as that is known.
    words: str
    #: Whether a living worker takes its jobs.
    is_served: bool


def in_states(counts: QueueCounts, links: Links) -> list[InState]:
    """Return how many jobs a queue has in each state."""
    # One URL is made and not six: a page may show a hundred queues.
    url = links.url("queue_change", counts.name)
    url += "&tab=" if "?" in url else "?tab="
    return [
        InState(state, words.state(state), getattr(counts, state), url + state)
        for state in SHOWN
    ]


def failed_url(name: str, links: Links) -> str:
    """Return the page with a queue's failed jobs."""
    return links.url("job_changelist", queue=name, state="failed")


def queue_row(
    counts: QueueCounts, *, lag: float, failed: int, is_served: bool, links: Links
) -> QueueRow:
    """Return what a line of the list shows of a queue."""
    return QueueRow(
        counts,
        lag,
        failed,
        links.url("queue_change", counts.name),
        failed_url(counts.name, links),
        in_states(counts, links),
        pause_in_words(counts),
        is_served,
    )


def sort_label(by: str) -> str:
    """Return one of SORTS in words."""
    names = {"lag": _("lag"), "name": _("name")}
    return names.get(by) or words.state(by)


def ordered(
    counts: Sequence[QueueCounts], by: str, lags: dict[str, float]
) -> list[QueueCounts]:
    """Return queues sorted by one of SORTS, and where that is equal, by name."""
    by_name = sorted(counts, key=lambda each: (each.name.casefold(), each.name))
    if by == "name":
        return by_name
    if by == "lag":
        return sorted(by_name, key=lambda each: -lags.get(each.name, 0))
    return sorted(by_name, key=lambda each: -int(getattr(each, by)))


def pause_in_words(counts: QueueCounts) -> str:
    """Return why a queue is paused and by whom, "" if that is not known."""
    pause = counts.pause
    if pause is None:
        return ""
    if pause.reason and pause.by:
        reason = words.visible(pause.reason)
        return _("%(reason)s (%(by)s)") % {"reason": reason, "by": pause.by}
    return pause.reason or (_("by %s") % pause.by if pause.by else "")


def is_empty(counts: QueueCounts) -> bool:
    """Return whether nothing at all is in a queue."""
    return not any(getattr(counts, state) for state in STATES)
