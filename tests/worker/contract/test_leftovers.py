"""What a coroutine job has begun, and not awaited, when it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.stage import Stage


def test_a_task_may_end_before_its_job_does(stage: Stage) -> None:
    jid = stage.put_run("leave_task", "left", 0.2)
    stage.start()
    stage.job_when(jid, "complete")
    [run] = stage.runs.of(f"left:{jid}")
    assert run.end, "it is awaited for a while"


def test_a_task_that_takes_long_is_cancelled_with_a_warning(stage: Stage) -> None:
    """Before another job runs: then nothing of it goes on."""
    jid = stage.put_run("leave_task", "left", 1000)
    after = [stage.put_run(f"{a}record", f"{a}after") for a in ("", "a")]
    worker = stage.start()
    for each in (jid, *after):
        stage.job_when(each, "complete")
    [run] = stage.runs.of(f"left:{jid}")
    assert run.left == "CancelledError"
    warned = [line for line in worker.output.splitlines() if " WARNING " in line]
    assert [line for line in warned if jid in line], worker.output


def test_it_sees_its_own_job_to_its_end(stage: Stage) -> None:
    """Never the context of one that has begun meanwhile."""
    jids = [stage.put_run("leave_task", "left", 0.02) for _ in range(20)]
    stage.start(concurrency=3)
    for jid in jids:
        stage.job_when(jid, "complete")
    stage.put_records(range(3))
    stage.wait(lambda: len(stage.runs.ended()) >= 3, "others have run")
    left = [run for run in stage.runs.all() if run.name.startswith("left:")]
    assert {run.name for run in left} <= {f"left:{jid}" for jid in jids}
    assert all(not run.told for run in left), "the job it saw in the end"
