"""Jobs that take too long: an exception first, then the end of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage

SAID = {"JobTimeout", "CancelledError"}


def test_a_soft_timeout_is_an_exception_in_the_job(stage: Stage) -> None:
    jids = {
        a: stage.put_hold(f"{a}hold_briefly", a or "plain", retries=1) for a in FLAVOURS
    }
    bystander = stage.put_hold("ahold", "bystander", "other")
    stage.start(concurrency=3)
    for a, jid in jids.items():
        job = stage.job_when(jid, "failed")
        assert job.failure is not None
        assert job.failure.group == "timeout"
        runs = stage.runs.of(a or "plain")
        assert len(runs) == 2
        assert {run.left for run in runs} <= SAID
    assert stage.run_of("bystander").is_open
    stage.latch("other").open()
    stage.job_when(bystander, "complete")


def test_a_hard_timeout_kills_and_blames_nobody_else(stage: Stage) -> None:
    for a in FLAVOURS:
        jid = stage.put_hold(f"{a}insist_briefly", f"{a}insist", "never", retries=0)
        bystander = stage.put_hold(f"{a}hold", f"{a}bystander", retries=0)
        stage.start(concurrency=2)
        job = stage.job_when(jid, "failed")
        assert job.failure is not None
        assert job.failure.group == "timeout"
        (run,) = stage.runs.of(f"{a}insist")
        assert run.is_open
        assert set(run.told) <= SAID
        assert run.told, "the exception comes first"
        stage.latch().open()
        job = stage.job_when(bystander, "complete")
        assert (job.remaining, job.crashes) == (0, 0)


def test_a_hard_timeout_may_be_the_end(stage: Stage) -> None:
    for a in FLAVOURS:
        jid = stage.put_hold(f"{a}insist_once", f"{a}once", "never", retries=5)
        stage.start(concurrency=1)
        job = stage.job_when(jid, "failed")
        assert job.failure is not None
        assert job.failure.group == "timeout"
        assert "longer than its hard timeout of 0.3 s" in job.failure.message
        assert len(stage.runs.of(f"{a}once")) == 1
