"""Length, failed jobs and lag of queues: by what an autoscaler decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django_qless.core.globs import matches_any
from django_qless.monitoring.snapshot import with_status
from django_qless.operations.status import FORMAT

if TYPE_CHECKING:
    from django_qless.core import Client
    from django_qless.core.commands.queues import QueueCounts
    from django_qless.operations.status import NamespaceStatus

#: One call counts the failed jobs of at most this many queues.
AT_ONCE = 200


class Lags:
    """The counts, lags and failed jobs of all queues at one moment."""

    def __init__(self, client: Client, status: NamespaceStatus) -> None:
        self.now = status.now
        self.counts = [queue.counts for queue in status.queues]
        self.lags = [queue.lag for queue in status.queues]
        names = [each.name for each in self.counts]
        self.failed: list[int] = []
        for start in range(0, len(names), AT_ONCE):
            self.failed += client.failed_of(names[start : start + AT_ONCE])
        #: Dead entities, by queue.
        self.dead = status.dead


lags = with_status(Lags)


def lag_data(alias: str, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Return length, failed jobs, dead entities and lag of queues, as JSON values.

    `wanted` are names and globs; without them all queues count. A queue that is not known
    yet adds nothing. Raises QlessError.
    """
    found: Lags = lags.get(alias)
    queues = {
        counts.name: queue_lag(counts, failed, found.dead.get(counts.name, 0), lag)
        for counts, failed, lag in zip(
            found.counts, found.failed, found.lags, strict=True
        )
        if not wanted or matches_any(counts.name, wanted)
    }
    total = {
        "length": sum(each["length"] for each in queues.values()),
        "waiting": sum(each["waiting"] for each in queues.values()),
        "failed": sum(each["failed"] for each in queues.values()),
        "dead": sum(each["dead"] for each in queues.values()),
        "lag": max((each["lag"] for each in queues.values()), default=0.0),
    }
    return {
        "format": FORMAT,
        "alias": alias,
        "now": found.now,
        "queues": queues,
        "total": total,
    }


def queue_lag(
    counts: QueueCounts, failed: int, dead: int, lag: float
) -> dict[str, float]:
    """Return the figures of a queue. Its length is what needs a worker now."""
    return {
        "length": counts.waiting + counts.running + counts.stalled,
        "waiting": counts.waiting,
        "failed": failed,
        "dead": dead,
        "lag": lag,
    }
