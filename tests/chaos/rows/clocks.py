"""Workers whose clocks are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import (
    UNDISTURBED,
    tally_complete,
    tally_runs,
    wait_for_all,
)

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

OFF = (-86400, -3600, 3600, 86400)


@row(times=4, quick=0)
def clocks_off(stage: Stage, tally: Tally, times: int) -> None:
    """The clocks of four workers are wrong by an hour, a day; the server's decides."""
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    names, jids = [], []
    for n in range(times):
        for k, klass in enumerate(("hold", "ahold")):
            names.append(f"{n}-{k}")
            jids.append(stage.put_hold(klass, f"{n}-{k}"))
    for n in range(times):
        stage.start(concurrency=4, clock_off=OFF[n % len(OFF)])
    for name in names:
        stage.run_of(name)
    delayed = [stage.put_run("record", f"delayed-{n}", delay=0.5) for n in range(8)]
    seen = {jid: stage.job(jid).expires for jid in jids}
    stage.wait(
        lambda: all(stage.job(jid).expires > seen[jid] + 3 for jid in jids),
        "the locks are kept, three times their length",
    )
    tally_complete(tally, wait_for_all(stage, delayed))
    stage.latch().open()
    tally_complete(tally, wait_for_all(stage, jids))
    lost = sum(stage.what_happened(jid) != UNDISTURBED for jid in jids)
    tally.exactly("locks lost", lost, 0)
    expected = [*names, *(f"delayed-{n}" for n in range(8))]
    tally_runs(stage, tally, expected, repeated=0)
