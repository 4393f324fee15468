"""What several rows do."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.worker.processes import is_alive
from tests.worker.runs import count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from django_qless.core import Job
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

LONG = 120.0
"""Seconds after which a row gives up waiting."""

DYING = 1.0
"""Seconds within which processes that were told to die must be gone."""

UNDISTURBED = ["put", "popped", "done"]


def wait_for_all(stage: Stage, jids: Sequence[str]) -> list[Job]:
    """Return the jobs when all of them have come to an end: 500 within LONG.

    However slow the machine is, a row gives up only when nothing goes on.
    """
    jobs: list[Job] = []
    for at in range(0, len(jids), 500):
        part = jids[at : at + 500]

        def look(part: Sequence[str] = part) -> list[Job] | None:
            found: list[Job] = stage.client.multiget(part)
            ended = all(job.state in ("complete", "failed") for job in found)
            return found if ended else None

        jobs += stage.wait(look, "the next jobs have come to an end", LONG)
    return jobs


def tally_runs(
    stage: Stage, tally: Tally, expected: Collection[object], repeated: int
) -> None:
    """Count what became of the expected jobs; a number of runs may have been repeated."""
    counts = count(expected, stage.runs.all())
    tally.note("jobs", counts.expected)
    tally.exactly("lost", counts.lost, 0)
    tally.exactly("unexpected", counts.unexpected, 0)
    tally.at_most("finished runs that were repeated", counts.repeated, repeated)
    tally.exactly("finished runs at the same time", counts.overlapping, 0)
    tally.note("recovered", counts.recovered)


def tally_complete(tally: Tally, jobs: Sequence[Job]) -> None:
    """Count the jobs that the server does not say are complete."""
    left = sum(job.state != "complete" for job in jobs)
    tally.exactly("jobs not complete", left, 0)


def left_alive(stage: Stage, pids: Iterable[int]) -> int:
    """Return how many of these processes are still there after a moment for dying."""
    pids = list(pids)
    with suppress(AssertionError):
        stage.wait(lambda: not any(map(is_alive, pids)), "they are gone", DYING)
    return sum(map(is_alive, pids))


def now() -> float:
    """Return the time by the clock of the runs."""
    return time.monotonic_ns() / 1e9
