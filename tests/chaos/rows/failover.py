"""A primary that dies or hangs while sentinels watch it, and its replica takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.failover import WITHIN, fail_over_under_load

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage


@row(times=4)
def failover(stage: Stage, tally: Tally, times: int) -> None:
    """The primary is killed, or hangs, under load; REPLICAS is 1, sentinels promote."""
    acknowledged, repeated, late = 0, 0, 0.0
    for number in range(times):
        folder = stage.folder / f"failover-{number}"
        folder.mkdir()
        # It returns when all that was acknowledged has run, or raises.
        outcome = fail_over_under_load(folder, ("KILL", "STOP")[number % 2], stage.pool)
        acknowledged += outcome.acknowledged
        repeated += len(outcome.repeated)
        late = max(late, *outcome.waits)
    tally.note("acknowledged jobs, all of which ran", acknowledged)
    tally.at_most("longest time until a worker consumes, seconds", late, WITHIN)
    # Those that ran while the primary failed count as runs with the second.
    tally.at_most("jobs that ran twice with one primary", repeated, 4 * times)
