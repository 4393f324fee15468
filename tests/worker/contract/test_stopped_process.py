"""A process of a worker is stopped while jobs wait for it."""

from __future__ import annotations

import os
import signal

import pytest

from tests.worker.processes import descendants
from tests.worker.stage import Stage

LARGE, SIZE = 8, 500_000
"""Jobs, and the bytes of their data: more than a socket holds."""

UNDISTURBED = ["put", "popped", "done"]


@pytest.mark.parametrize("pool", ["prefork", "fork"])
def test_its_neighbours_keep_their_locks(stage: Stage) -> None:
    """Though it takes nothing of what it is given; others run that in the end."""
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    neighbours = [stage.put_hold("hold", f"n{n}", "neighbours") for n in range(2)]
    first = stage.put_hold("hold", "first", "first")
    worker = stage.start(concurrency=3)
    runs = {stage.run_of(f"n{n}").pid for n in range(2)}
    stage.run_of("first")
    stage.latch("first").open()
    stage.job_when(first, "complete")
    stopped = [
        pid for pid in worker.family()[1:] if runs.isdisjoint([pid, *descendants(pid)])
    ]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    large = [stage.put_run("carry", f"load-{n}", "x" * SIZE) for n in range(LARGE)]
    seen = [stage.job(jid).expires for jid in neighbours]
    stage.wait(
        lambda: all(
            stage.job(jid).expires > before + 2.5
            for jid, before in zip(neighbours, seen, strict=True)
        ),
        "their locks are renewed again and again",
    )
    stage.start(concurrency=1)
    for jid in large:
        stage.job_when(jid, "complete")
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    stage.latch("neighbours").open()
    for jid in neighbours:
        stage.job_when(jid, "complete")
        assert stage.what_happened(jid) == UNDISTURBED
