"""Locks are kept while their jobs run, and what is left of a run that lost its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import is_alive
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.stage import Stage

UNDISTURBED = ["put", "popped", "done"]


def test_the_lock_of_a_long_job_is_kept(stage: Stage) -> None:
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    jids = [stage.put_hold(f"{a}hold", f"{a}hold") for a in FLAVOURS]
    stage.start(concurrency=2)
    for a in FLAVOURS:
        stage.run_of(f"{a}hold")
    # Somebody is there to take what is lost.
    stage.start(concurrency=2)
    first = [stage.job(jid).expires for jid in jids]
    stage.wait(
        lambda: all(
            stage.job(jid).expires > before + 1.5
            for jid, before in zip(jids, first, strict=True)
        ),
        "the locks are prolonged, by more than their length",
    )
    stage.latch().open()
    for jid in jids:
        stage.job_when(jid, "complete")
        assert stage.what_happened(jid) == UNDISTURBED


@pytest.mark.parametrize("klass", ["hold_interpreter", "await_nothing"])
def test_a_job_that_lets_nothing_else_run_keeps_its_lock(
    stage: Stage, klass: str
) -> None:
    """Neither another thread nor the event loop of its process gets a turn."""
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    jid = stage.put_run(klass, "job", 2.5)
    neighbour = stage.put_hold("hold", "neighbour")
    stage.start(concurrency=2)
    stage.run_of("job")
    stage.start()
    stage.latch().open()
    for known in (jid, neighbour):
        stage.job_when(known, "complete")
        assert stage.what_happened(known)[-1] == "done"
        assert "timed-out" not in stage.what_happened(known)
    assert stage.what_happened(jid) == UNDISTURBED


def test_a_job_whose_lock_is_lost_is_told_and_refused(stage: Stage) -> None:
    told_and_refused(stage, stage.client.timeout)


def test_a_job_that_is_put_again_is_told_and_refused(stage: Stage) -> None:
    def put_again(jid: str) -> None:
        job = stage.job(jid)
        stage.client.put("", "q", jid, job.klass, job.data)

    told_and_refused(stage, put_again)


def told_and_refused(stage: Stage, take: Callable[[str], object]) -> None:
    """Both flavours, and one of each that does not listen."""
    stage.client.config_set("heartbeat", 0.5)
    jids = {}
    for klass in ("hold", "ahold", "insist", "ainsist"):
        jids[klass] = stage.put_hold(klass, klass, klass, retries=3)
    worker = stage.start(concurrency=4)
    first = {klass: stage.run_of(klass) for klass in jids}
    # For those of a process in which the first run does not let go of its place.
    stage.start(concurrency=4)
    for jid in jids.values():
        take(jid)
    second = {klass: stage.run_of(klass, times=2) for klass in jids}
    for klass, run in first.items():
        stage.wait(
            lambda run=run: run_is_over(stage, run.id) or is_told(stage, run.id),
            f"{klass} has been told",
        )
        assert second[klass].id != run.id
        stage.latch(klass).open()
    for klass, jid in jids.items():
        stage.job_when(jid, "complete")
        # The first run of those that did not listen has ended as well, for nothing.
        assert stage.client.result(jid) == stage.end_of(klass, times=2).id
        assert stage.what_happened(jid).count("done") == 1
    assert worker.process.poll() is None


def test_a_cancelled_job_is_told(stage: Stage) -> None:
    stage.client.config_set("heartbeat", 0.5)
    jids = {a: stage.put_hold(f"{a}hold", f"{a}hold") for a in FLAVOURS}
    stage.start(concurrency=2)
    runs = {a: stage.run_of(f"{a}hold") for a in FLAVOURS}
    for a, jid in jids.items():
        stage.client.cancel(jid)
        stage.wait(lambda a=a: run_is_over(stage, runs[a].id), f"{a}hold is over")
    after = [stage.put(f"{a}answer", 1) for a in FLAVOURS]
    for jid in after:
        stage.job_when(jid, "complete")
    for a, jid in jids.items():
        assert stage.client.get(jid).state == "canceled"
        assert len(stage.runs.of(f"{a}hold")) == 1


def run_is_over(stage: Stage, run_id: str) -> bool:
    """Return whether a run was left, or its process is gone."""
    (run,) = [run for run in stage.runs.all() if run.id == run_id]
    assert run.end is None
    return bool(run.left) or not is_alive(run.pid)


def is_told(stage: Stage, run_id: str) -> bool:
    (run,) = [run for run in stage.runs.all() if run.id == run_id]
    return bool(run.told)
