"""A cluster whose slots move and whose primaries die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.resharding import WITHIN, Trouble, trouble_under_load

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage


@row(times=4)
def resharding(stage: Stage, tally: Tally, times: int) -> None:
    """The slot moves under load, and its primary is killed; REPLICAS is 1."""
    folder = stage.folder / "resharding"
    folder.mkdir()
    # It returns when all that was acknowledged has run, or raises.
    trouble = Trouble(reshards=times, failovers=(times + 1) // 2, jobs=0)
    outcome = trouble_under_load(folder, "valkey", trouble, stage.pool)
    tally.note("acknowledged jobs, all of which ran", outcome.acknowledged)
    tally.at_most(
        "longest time until a worker consumes, seconds", max(outcome.waits), WITHIN
    )
    # Those whose end was on its way.
    tally.at_most("jobs that ran twice", outcome.repeated, 5 * trouble.failovers)
