"""Which queues are served, as workers tell it: does anybody take the jobs of this one?"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.core.commands.operations import WorkerCounts

SILENCE = 60.0
"""Seconds without a sign of life after which a worker is taken for lost: it gives one
every ten."""

LATENESS = 15.0
"""Seconds after which a sign of life is late."""


def is_alive(worker: WorkerCounts, now: float) -> bool:
    """Return whether a worker gave a sign of life lately; `now` by the server's clock."""
    return now - worker.beat < SILENCE


def is_late(worker: WorkerCounts, now: float) -> bool:
    """Return whether a sign of life is missing, of a worker that gives them regularly."""
    return worker.info is not None and now - worker.beat >= LATENESS


class Coverage:
    """What the living ones among some workers serve."""

    def __init__(self, workers: Iterable[WorkerCounts], now: float) -> None:
        alive = [worker.info or {} for worker in workers if is_alive(worker, now)]
        # Of another qless client, which does not say what it serves: perhaps all.
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
            any(fnmatchcase(queue, glob) for glob in wanted)
            and not any(fnmatchcase(queue, glob) for glob in unwanted)
            for wanted, unwanted in self._patterns
        )


def _texts(said: object) -> tuple[str, ...]:
    return tuple(map(str, said)) if isinstance(said, list) else ()
