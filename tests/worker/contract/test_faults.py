"""Servers that go away, lose their scripts, and clocks that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.real_servers import Server
from tests.worker.stage import FLAVOURS, Stage

if TYPE_CHECKING:
    from pathlib import Path


def test_a_server_that_was_killed_and_comes_back(tmp_path: Path, pool: str) -> None:
    """Finished, running and waiting jobs survive; workers go on by themselves."""
    with (
        Server("valkey", "--appendonly", "yes", "--appendfsync", "always") as server,
        Stage(server, tmp_path, pool) as stage,
    ):
        held = [stage.put_hold(f"{a}hold", f"{a}hold") for a in FLAVOURS]
        waiting = stage.put_hold("hold", "waiting")
        worker = stage.start(concurrency=2)
        for a in FLAVOURS:
            stage.run_of(f"{a}hold")
        server.kill()
        # They end while the worker cannot hear of it.
        stage.latch().open()
        for a in FLAVOURS:
            assert stage.end_of(f"{a}hold").end
        server.start()
        for jid in [*held, waiting]:
            stage.job_when(jid, "complete")
            assert stage.what_happened(jid) == ["put", "popped", "done"]
        server.restart()
        stage.job_when(stage.put_run("arecord", "after"), "complete")
        worker.signal("TERM")
        assert worker.wait() == 0


def test_flushed_scripts_and_functions(stage: Stage) -> None:
    jid = stage.put_hold("ahold", "held")
    stage.start(concurrency=2)
    stage.run_of("held")
    for n in range(5):
        stage.client.redis.script_flush()
        stage.client.redis.function_flush()
        assert stage.job_when(stage.put_run("record", n), "complete")
    stage.latch().open()
    stage.job_when(jid, "complete")


@pytest.mark.parametrize("off", [-86400, 3600])
def test_a_clock_that_is_wrong(stage: Stage, off: float) -> None:
    """The server's clock decides."""
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    jid = stage.put_hold("hold", "held")
    delayed = stage.put_run("arecord", "delayed", delay=0.3)
    stage.start(concurrency=2, clock_off=off)
    stage.run_of("held")
    stage.start()
    seen = stage.job(jid).expires
    stage.wait(lambda: stage.job(jid).expires > seen + 1.5, "the lock is kept")
    stage.job_when(delayed, "complete")
    stage.latch().open()
    stage.job_when(jid, "complete")
    assert stage.what_happened(jid) == ["put", "popped", "done"]
