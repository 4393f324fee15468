"""Many processes at the same queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import tally_complete, tally_runs, wait_for_all

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

PROCESSES = 16

# A process for each job takes its time.
VERY_LONG = 900.0


@row(times=20_000, quick=1_000)
def crowd(stage: Stage, tally: Tally, times: int) -> None:
    """16 processes take the jobs of three queues; none is handed out twice."""
    names = range(times)
    jids = []
    for n, queue in enumerate("abc"):
        jids += stage.put_records(names[n::3], queue=queue)
    one_each = stage.pool in ("threads", "coroutines")
    workers = PROCESSES if one_each else 2
    for _ in range(workers):
        stage.start(
            concurrency=4 if one_each else PROCESSES // workers,
            queues=["a", "b", "c"],
            reserver="shuffled",
            verbosity=1,
        )
    stage.wait(lambda: len(stage.runs.ended()) >= times, "all have run", VERY_LONG)
    tally_complete(tally, wait_for_all(stage, jids))
    tally_runs(stage, tally, names, repeated=0)
    tally.exactly("runs cut short", sum(run.end is None for run in stage.runs.all()), 0)
