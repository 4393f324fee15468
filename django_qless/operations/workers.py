"""Workers: which of them are alive, and which queues they serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core.globs import matches_any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.core.commands.operations import WorkerCounts

LOST_AFTER = 60.0
"""Seconds without a heartbeat after which a worker counts as lost: it beats every ten."""

LATE_AFTER = 15.0
"""Seconds after which a heartbeat is late."""


def is_alive(worker: WorkerCounts, now: float) -> bool:
    """Return whether a worker sent a heartbeat lately; `now` is the server's time."""
    return now - worker.beat < LOST_AFTER


def is_late(worker: WorkerCounts, now: float) -> bool:
    """Return whether a heartbeat is overdue, of a worker that sends them regularly."""
    return worker.info is not None and now - worker.beat >= LATE_AFTER


class ServedQueues:
    """Queues that the living ones among some workers serve."""

    def __init__(self, workers: Iterable[WorkerCounts], now: float) -> None:
        alive = [worker.info or {} for worker in workers if is_alive(worker, now)]
        # Other qless clients do not say what they serve: perhaps all.
        self._unknown = any(not isinstance(info.get("queues"), list) for info in alive)
        # Many workers serve the same, so that few different patterns are left.
        self._patterns = {
            (_texts(info.get("queues")), _texts(info.get("exclude")))
            for info in alive
            if info.get("state", "running") == "running"
        }

    def serves(self, queue: str) -> bool:
        """Return whether a worker takes jobs of this queue, as far as is known."""
        return self._unknown or any(
            matches_any(queue, wanted) and not matches_any(queue, unwanted)
            for wanted, unwanted in self._patterns
        )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
