"""The status of a namespace: its queues and their totals, failures and workers.

The admin and the commands show it, each in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.core.commands.pages import MOST_QUEUES
from django_qless.core.states import IN_QUEUE
from django_qless.operations.workers import is_alive

if TYPE_CHECKING:
    from django_qless.core import Client
    from django_qless.core.commands.entities import EntityCounts
    from django_qless.core.commands.operations import WorkerCounts
    from django_qless.core.commands.queues import QueueCounts
    from django_qless.core.commands.statistics import DayCounters


class QueueStatus(NamedTuple):
    """A queue at one moment."""

    counts: QueueCounts
    lag: float
    """Seconds for which the oldest ready job has waited."""
    today: DayCounters
    """Retries, lost locks and failures since midnight UTC."""


def read_queues(client: Client, now: float) -> list[QueueStatus]:
    """Return the status of all queues, with five calls for each thousand of them."""
    counts = client.queues()
    names = [queue.name for queue in counts]
    today = client.stats_counters(now, names) if names else []
    return list(map(QueueStatus, counts, lags_of(client, counts), today))


def lags_of(client: Client, counts: Sequence[QueueCounts]) -> list[float]:
    """Return the lags of these queues, in seconds."""
    return client.lag([queue.name for queue in counts]) if counts else []


def with_schedules(client: Client, counts: Sequence[QueueCounts]) -> list[QueueCounts]:
    """Return counts with all recurring jobs, also paused ones and those by cron.

    The core's own count knows of unpaused intervals only.
    """
    found: list[QueueCounts] = []
    for start in range(0, len(counts), MOST_QUEUES):
        part = counts[start : start + MOST_QUEUES]
        numbers = client.recurring_of([queue.name for queue in part])
        found += [
            queue._replace(recurring=number)
            for queue, number in zip(part, numbers, strict=True)
        ]
    return found


@dataclass(frozen=True)
class Totals:
    """The totals of all queues."""

    queues: int
    lag: float
    """The greatest lag."""
    slowest: str
    """The queue with the greatest lag, "" if no job waits."""
    waiting: int
    running: int
    stalled: int
    scheduled: int
    depends: int

    @classmethod
    def of(cls, counts: Sequence[QueueCounts], lags: Sequence[float]) -> Totals:
        """Return the totals of these queues."""
        names = [queue.name for queue in counts]
        lag, slowest = max(zip(lags, names, strict=True), default=(0.0, ""))
        return cls(
            queues=len(counts),
            lag=lag,
            slowest=slowest if lag else "",
            **{
                state: sum(getattr(each, state) for each in counts)
                for state in IN_QUEUE
            },
        )


@dataclass(frozen=True)
class NamespaceStatus:
    """The queues, failures and workers of a namespace at one moment."""

    queues: list[QueueStatus]
    failures: dict[str, int]
    """The number of failed jobs in each group."""
    entities: list[EntityCounts]
    """The figures of the queues that have, or had, entities."""
    workers: list[WorkerCounts]
    now: float
    """The time of the status, by the server's clock."""

    @property
    def dead(self) -> dict[str, int]:
        """The number of dead entities of each queue that has some.

        They are no failed jobs: in no failure group, and brought back with others.
        """
        return {each.queue: each.dead for each in self.entities if each.dead}

    @classmethod
    def read(cls, client: Client) -> NamespaceStatus:
        """Ask the server for the status."""
        now = float(client.meta()["now"])
        queues = read_queues(client, now)
        counts = with_schedules(client, [queue.counts for queue in queues])
        return cls(
            queues=[
                queue._replace(counts=each)
                for queue, each in zip(queues, counts, strict=True)
            ],
            failures=client.failed(),
            entities=client.entity_counts(),
            workers=client.workers(),
            now=now,
        )


FORMAT = 1
"""Of `status_data`: a member may be added at any time; what is there keeps its meaning."""


def status_data(status: NamespaceStatus, alias: str) -> dict[str, Any]:
    """Return the status as JSON values: see the page "Status as JSON"."""
    counts = [queue.counts for queue in status.queues]
    totals = Totals.of(counts, [queue.lag for queue in status.queues])
    return {
        "format": FORMAT,
        "alias": alias,
        "now": status.now,
        "totals": {
            **asdict(totals),
            "failed": sum(status.failures.values()),
            "dead": sum(status.dead.values()),
        },
        "queues": [*map(queue_data, status.queues)],
        "failures": status.failures,
        "dead": status.dead,
        "workers": [
            {**worker._asdict(), "alive": is_alive(worker, status.now)}
            for worker in status.workers
        ],
    }


def queue_data(queue: QueueStatus) -> dict[str, Any]:
    """Return the status of a queue as JSON values."""
    counts = queue.counts
    return {
        **counts._asdict(),
        "pause": counts.pause._asdict() if counts.pause else None,
        "lag": queue.lag,
        "today": queue.today._asdict(),
    }
