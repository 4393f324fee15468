"""A recurring job among workers that are killed."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import LONG

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

WORKERS = 8


@row(times=20, quick=2)
def recurring(stage: Stage, tally: Tally, times: int) -> None:
    """A job each second, eight workers, kills: exactly one job per tick."""
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    workers = [stage.start(verbosity=1) for _ in range(WORKERS if times > 5 else 3)]
    for worker in workers:
        worker.wait_for_log("started")
    data = json.dumps({"args": [stage.runs.path, 0.3]})
    stage.client.recur("q", "clock", "record_self", data, 1, 0, retries=5)
    for n in range(times):
        name = f"clock-{n + 1}"
        stage.wait(lambda name=name: stage.runs.of(name), f"{name} runs", LONG)
        pid = stage.runs.of(name)[-1].pid
        at = next(
            (at for at, worker in enumerate(workers) if pid in worker.family()), 0
        )
        # By turns a child and the whole worker, who is replaced then, and nobody.
        if n % 3 == 0:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        elif n % 3 == 1:
            workers[at].signal("KILL")
            workers[at] = stage.start(verbosity=1)
    stage.client.unrecur("clock")
    ticks = {run.name for run in stage.runs.all()}
    for name in ticks:
        stage.job_when(name, "complete")
    spawned = sorted(int(name.removeprefix("clock-")) for name in ticks)
    tally.at_least("ticks", len(spawned), times)
    tally.exactly("ticks left out", spawned[-1] - len(spawned), 0)
    doubled = sum(
        len([run for run in stage.runs.of(name) if run.end is not None]) > 1
        for name in ticks
    )
    tally.note("kills", times - times // 3)
    tally.exactly("ticks that ran to their end twice", doubled, 0)
    again = sum(len(stage.runs.of(name)) > 1 for name in ticks)
    tally.note("ticks recovered from a kill", again)
