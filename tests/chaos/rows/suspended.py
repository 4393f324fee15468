"""Workers that stand still longer than their locks last, and then go on."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import tally_complete, wait_for_all
from tests.worker.processes import is_alive, is_suspended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

EACH = 10
"""Jobs that one worker runs when it is suspended."""


@row(times=50, quick=4)
def suspended(stage: Stage, tally: Tally, times: int) -> None:
    """SIGSTOP for three heartbeats, then CONT; what it says then is refused."""
    heartbeat = 1
    stage.client.config_set("heartbeat", heartbeat)
    stage.client.config_set("grace-period", 0)
    jids: dict[str, str] = {}
    accepted = stale = 0
    for first in range(0, times, EACH):
        names = [str(n) for n in range(first, min(times, first + EACH))]
        early, late = stage.latch(f"early-{first}"), stage.latch(f"late-{first}")
        for n, name in enumerate(names):
            klass = "arelay" if n % 2 else "relay"
            jids[name] = stage.put_run(klass, name, early.path, late.path, retries=3)
        still = stage.start(concurrency=len(names))
        runs = [stage.run_of(name) for name in names]
        family = still.family()
        send(signal.SIGSTOP, family)
        for pid in family:
            # Helpers that sweep up may have ended by themselves meanwhile.
            stage.wait(
                lambda pid=pid: is_suspended(pid) or not is_alive(pid),
                f"{pid} stands still",
            )
        other = stage.start(concurrency=len(names))
        latest = max(stage.job(jids[name]).expires for name in names)
        again = [stage.run_of(name, times=2) for name in names]
        stage.wait(
            lambda end=latest + 2 * heartbeat: float(stage.client.meta()["now"]) > end,
            "three heartbeats are over",
        )
        # The children first: their parent would kill them before they can say a word.
        early.open()
        send(signal.SIGCONT, family[1:])
        for name, run in zip(names, runs, strict=True):
            ended = stage.end_of(name)
            assert ended.id == run.id
            stale += ended.end is not None
        still.signal("CONT")
        still.signal("TERM")
        still.wait()
        late.open()
        for name, run in zip(names, again, strict=True):
            stage.job_when(jids[name], "complete")
            accepted += stage.client.result(jids[name]) != run.id
        other.signal("TERM")
        assert other.wait() == 0
    tally.exactly("stale runs that said how they ended", stale, times)
    tally.exactly("stale calls accepted", accepted, 0)
    refused = sum(worker.output.count("LOCKLOST") for worker in stage.workers)
    tally.note("refusals in the workers' logs", refused)
    tally_complete(tally, wait_for_all(stage, list(jids.values())))
    done = [stage.what_happened(jid).count("done") for jid in jids.values()]
    tally.exactly("most completions of one job", max(done), 1)
    # Both runs of a job end as they should: the first one for nothing.
    expected = [run for run in stage.runs.all() if run.id not in stale_ids(stage)]
    tally.exactly("runs that count", len(expected), times)


def send(number: signal.Signals, family: Iterable[int]) -> None:
    """Send a signal to those of these processes that are still there."""
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stale_ids(stage: Stage) -> set[str]:
    """Return the names of the first runs."""
    first: dict[str, str] = {}
    for run in stage.runs.all():
        first.setdefault(run.name, run.id)
    return set(first.values())
