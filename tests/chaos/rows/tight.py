"""Jobs that let nothing else in their process run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import (
    UNDISTURBED,
    tally_complete,
    tally_runs,
    wait_for_all,
)
from tests.worker.processes import is_alive

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

WORKERS = 5


@row(times=20, quick=2)
def interpreter_held(stage: Stage, tally: Tally, times: int) -> None:
    """A job holds the GIL for five heartbeats; its lock is kept."""
    heartbeat = 1
    stage.client.config_set("heartbeat", heartbeat)
    stage.client.config_set("grace-period", 0)
    jids = [
        stage.put_run(
            "ahold_interpreter" if n % 2 else "hold_interpreter", n, 5.0 * heartbeat
        )
        for n in range(times)
    ]
    for _ in range(min(WORKERS, times) + 1):
        stage.start()
    tally_complete(tally, wait_for_all(stage, jids))
    lost = sum(stage.what_happened(jid) != UNDISTURBED for jid in jids)
    tally.exactly("locks lost", lost, 0)
    tally_runs(stage, tally, range(times), repeated=0)


@row(times=5, quick=1, pools=("coroutines",))
def loop_blocked(stage: Stage, tally: Tally, times: int) -> None:
    """A coroutine blocks the event loop; its stack is shown, then it is given up."""
    heartbeat = 0.5
    stage.client.config_set("heartbeat", heartbeat)
    stage.client.config_set("grace-period", 0)
    shown = 0
    jids, neighbours = [], []
    for n in range(times):
        jids.append(stage.put_run("await_nothing", f"block-{n}", 1000, retries=0))
        neighbours.append(stage.put_hold("ahold", n, retries=0))
        worker = stage.start(concurrency=2, block_limit=3 * heartbeat)
        blocking, beside = stage.run_of(f"block-{n}"), None
        stage.wait(lambda pid=blocking.pid: not is_alive(pid), "it has been given up")
        shown += "in wait_for_nothing" in worker.output
        stage.job_when(jids[-1], "failed")
        stage.latch().open()
        beside = stage.job_when(neighbours[-1], "complete")
        tally.exactly(
            "crashes and retries of its neighbour",
            beside.crashes + beside.retries - beside.remaining,
            0,
        )
        worker.signal("TERM")
        worker.wait()
    tally.exactly("stacks shown", shown, times)
    kept = sum("timed-out" not in stage.what_happened(jid) for jid in jids)
    tally.exactly("locks kept until then", kept, times)
