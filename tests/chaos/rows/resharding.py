"""A cluster whose slots move and whose primaries die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.six_nodes.run import WITHIN, Trouble, under_load

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage


@row(times=4)
def resharding(stage: Stage, tally: Tally, times: int) -> None:
    """Slots of three aliases move under load, primaries are killed; REPLICAS is 1."""
    folder = stage.folder / "resharding"
    folder.mkdir()
    trouble = Trouble(reshards=times, failovers=(times + 1) // 2)
    outcome = under_load(folder, "valkey", trouble, stage.pool)
    tally.note("acknowledged jobs", outcome.acknowledged)
    tally.exactly("acknowledged jobs that were lost", len(outcome.lost), 0)
    tally.exactly("jobs that ran again without a failover", len(outcome.unexplained), 0)
    tally.note("jobs that ran again after one", len(outcome.again))
    tally.note("ticks", outcome.ticks)
    tally.exactly("ticks left out", len(outcome.left_out), 0)
    tally.exactly("waits for jobs in vain", len(outcome.in_vain), 0)
    tally.at_most(
        "longest time until all workers consume, seconds", outcome.longest, WITHIN
    )
