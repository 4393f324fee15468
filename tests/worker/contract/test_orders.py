"""What operators may ask of a running worker, by signal and through the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.client.cutter import Cutter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.stage import Stage


@pytest.mark.parametrize("way", ["signals", "orders"])
def test_quiet_and_resume(stage: Stage, way: str) -> None:
    """The running job goes on, no other is begun, until the worker may go on."""
    held = stage.put_hold("hold", "held")
    worker = stage.start(name="w")
    stage.run_of("held")
    quiet: Callable[[], object]
    if way == "signals":
        quiet, resume = lambda: worker.signal("TSTP"), lambda: worker.signal("CONT")
    else:
        quiet = lambda: stage.client.order("w", "quiet")  # noqa: E731
        resume = lambda: stage.client.order("w", "resume")  # noqa: E731
    quiet()
    worker.wait_for_log("quiet")
    later = stage.put_run("arecord", "later")
    stage.latch().open()
    stage.job_when(held, "complete")
    assert stage.job(later).state == "waiting"
    assert not stage.runs.of("later")
    resume()
    stage.job_when(later, "complete")


def test_a_job_reserved_in_the_moment_of_quiet_is_handed_back(stage: Stage) -> None:
    with Cutter(stage.server.socket) as cutter:
        waits = "*3\r\n$8\r\nBZPOPMIN"
        cutter.hold(waits)
        worker = stage.start(url=f"unix://{cutter.path}")
        stage.wait(
            lambda: any(waits.encode() in request for request in cutter.seen),
            "the worker waits for jobs",
        )
        jid = stage.put_run("record", "only")
        stage.job_when(jid, "running")
        worker.signal("TSTP")
        # It asks on another connection what its call has brought.
        stage.job_when(jid, "waiting")
        assert not stage.runs.of("only")
        worker.signal("CONT")
        stage.job_when(jid, "complete")
        assert len(stage.runs.of("only")) == 1


def test_the_order_to_stop(stage: Stage) -> None:
    jid = stage.put_hold("ahold", "held")
    worker = stage.start(concurrency=2, name="w")
    stage.run_of("held")
    stage.client.order("w", "stop")
    worker.wait_for_log("stop")
    stage.latch().open()
    assert worker.wait() == 0
    assert stage.job(jid).state == "complete"
