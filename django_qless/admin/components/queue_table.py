"""Queues as pages show them: job counts by state, and links to the lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import formatting
from django_qless.core.states import QUEUE_STATES
from django_qless.operations.status import with_schedules

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.links import Links
    from django_qless.admin.views import View
    from django_qless.core.commands.queues import QueueCounts
    from django_qless.operations.workers import ServedQueues

SHOWN = ("waiting", "running", "scheduled", "depends", "stalled", "recurring")
"""The states in the order in which an operator asks."""
assert set(SHOWN) == set(QUEUE_STATES)

SORTS = ("lag", "name", "waiting", "running", "scheduled", "depends", "stalled")
"""The orders of a list of queues; numbers start with the largest."""

ORDERS: dict[str, _StrOrPromise] = {
    "waiting": gettext_lazy("The next job to run comes first."),
    "running": gettext_lazy("The job whose lock expires next comes first."),
    "scheduled": gettext_lazy("The next job to fall due comes first."),
    "depends": gettext_lazy("They wait for other jobs; the oldest comes first."),
    "stalled": gettext_lazy(
        "Their locks have expired without a heartbeat; another worker takes them next."
    ),
    "recurring": gettext_lazy("Schedules that enqueue jobs into this queue."),
}
"""The order of the jobs of each state, for people."""


class InState(NamedTuple):
    """The number of jobs of a queue in a state."""

    state: str
    label: str
    number: int
    url: str


@dataclass(frozen=True)
class QueueRow:
    """A queue as lists and its page show it."""

    counts: QueueCounts
    lag: float
    """Seconds for which the oldest ready job has waited."""
    failed: int
    """Failed jobs, of the days for which statistics are kept."""
    is_served: bool
    """True if a worker that is alive takes its jobs."""
    links: Links

    @property
    def url(self) -> str:
        """The page of the queue."""
        return self.links.url("queue_change", self.counts.name)

    @property
    def failed_url(self) -> str:
        """The list of its failed jobs."""
        return self.links.url("job_changelist", queue=self.counts.name, state="failed")

    @property
    def states(self) -> list[InState]:
        """The number of jobs in each state, in the order of SHOWN."""
        return self.in_states(SHOWN)

    def in_states(self, states: Sequence[str]) -> list[InState]:
        """Return the number of jobs in each of these states."""
        # One URL is built and not six: a page may show a hundred queues.
        url = self.url
        url += "&tab=" if "?" in url else "?tab="
        return [
            InState(
                state,
                formatting.state(state),
                getattr(self.counts, state),
                url + state,
            )
            for state in states
        ]

    @property
    def pause_reason(self) -> str:
        """Why it is paused, and by whom."""
        return pause_reason(self.counts)

    @property
    def lacks_workers(self) -> bool:
        """True if jobs wait in it that no worker takes."""
        waits = bool(self.counts.waiting) and not self.counts.paused
        return waits and not self.is_served


def queue_rows(
    view: View, queues: Sequence[tuple[QueueCounts, float]], served: ServedQueues
) -> list[QueueRow]:
    """Return the rows of queues and their lags, with two calls in all."""
    if not queues:
        return []
    counts = with_schedules(view.client, [each for each, _lag in queues])
    failed = view.client.failed_of([each.name for each in counts])
    return [
        QueueRow(each, lag, number, served.serves(each.name), view.links)
        for each, (_, lag), number in zip(counts, queues, failed, strict=True)
    ]


def pause_reason(counts: QueueCounts) -> str:
    """Return the reason and the author of a queue's pause; "" if unknown."""
    pause = counts.pause
    if pause is None:
        return ""
    if pause.reason and pause.by:
        reason = formatting.visible(pause.reason)
        return _("%(reason)s (%(by)s)") % {"reason": reason, "by": pause.by}
    return pause.reason or (_("by %s") % pause.by if pause.by else "")


def is_empty(counts: QueueCounts) -> bool:
    """Return whether a queue is completely empty."""
    return not any(getattr(counts, state) for state in QUEUE_STATES)
