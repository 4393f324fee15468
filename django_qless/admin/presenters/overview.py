"""An alias at a glance: its queues, the most delayed first, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_qless.admin import words
from django_qless.schedules.handle import RecurringHandle

if TYPE_CHECKING:
    from django_qless.admin.views import View
    from django_qless.core import Schedule
    from django_qless.core.commands.queues import DayCounters, QueueCounts
    from django_qless.worker.serving import Coverage


@dataclass(frozen=True)
class Cell:
    """How many jobs of a queue are in a state, and where they are shown."""

    number: int
    url: str


@dataclass(frozen=True)
class QueueRow:
    """A queue as the table shows it."""

    counts: QueueCounts
    url: str
    lag: float
    cells: list[Cell]
    """By state, in the order of STATES; the day's counters; those that failed."""
    lacks_workers: bool
    """Whether jobs wait in it and nobody takes them."""


@dataclass(frozen=True)
class Totals:
    """All queues together."""

    queues: int
    paused: int
    lag: float
    slowest: str
    """The queue with the greatest lag, "" if there is none."""
    waiting: int
    running: int
    stalled: int
    scheduled: int
    depends: int
    recurring: int
    retried: int
    """Attempts that failed today and run again."""
    lost: int
    """Locks that were seen to be lost today."""

    @property
    def cells(self) -> list[int]:
        """The numbers of the states and of today, in the order of the table's columns."""
        return [
            *(getattr(self, state) for state in STATES),
            self.retried,
            self.lost,
        ]


STATES = ("waiting", "running", "stalled", "scheduled", "depends", "recurring")


def totals(
    counts: Sequence[QueueCounts],
    lags: Sequence[float],
    today: Sequence[DayCounters],
) -> Totals:
    """Return the sums of these queues; of their lags, the greatest."""
    lag, slowest = max(
        ((lag, each.name) for each, lag in zip(counts, lags, strict=True)),
        default=(0.0, ""),
        key=lambda pair: pair[0],
    )
    return Totals(
        queues=len(counts),
        paused=sum(each.paused for each in counts),
        lag=lag,
        slowest=slowest if lag else "",
        **{state: sum(getattr(each, state) for each in counts) for state in STATES},
        retried=sum(each.retried for each in today),
        lost=sum(each.retries for each in today),
    )


def by_urgency(
    counts: Iterable[QueueCounts], lags: Iterable[float]
) -> list[tuple[QueueCounts, float]]:
    """Return queues with their lags, the greatest lag first; then those with more to do."""
    return sorted(
        zip(counts, lags, strict=True),
        key=lambda pair: (
            -pair[1],
            -(pair[0].waiting + pair[0].running + pair[0].stalled),
            pair[0].name,
        ),
    )


def queue_rows(
    found: Sequence[tuple[QueueCounts, float]],
    failed: Sequence[int],
    today: dict[str, DayCounters],
    coverage: Coverage,
    view: View,
) -> list[QueueRow]:
    """Return what the table shows of these queues."""
    url = view.links.url
    rows = []
    for (counts, lag), failures in zip(found, failed, strict=True):
        name = counts.name
        cells = [
            Cell(getattr(counts, state), url("queue_change", name, tab=state))
            for state in STATES
        ]
        statistics = url("queue_change", name)
        cells += [
            Cell(today[name].retried, statistics),
            Cell(today[name].retries, statistics),
        ]
        of_failed = url("job_changelist", queue=name, state="failed")
        rows.append(
            QueueRow(
                counts=counts,
                url=statistics,
                lag=lag,
                cells=[*cells, Cell(failures, of_failed)],
                lacks_workers=bool(counts.waiting)
                and not counts.paused
                and not coverage.serves(name),
            )
        )
    return rows


@dataclass(frozen=True)
class NextTick:
    """A schedule, and when it ticks next."""

    name: str
    words: str
    url: str
    at: float
    wait: str
    """Until then; "" if it is due."""


def next_ticks(schedules: Iterable[Schedule], view: View) -> list[NextTick]:
    """Return what is shown of the schedules that tick next."""
    return [
        NextTick(
            name=schedule.name or schedule.id,
            words=RecurringHandle(view.alias, schedule.id, schedule).words,
            url=view.links.url("recurring_change", schedule.id),
            at=schedule.next,
            wait=words.span(schedule.next - view.now)
            if schedule.next > view.now
            else "",
        )
        for schedule in schedules
        if schedule.next is not None
    ]
