"""Jobs that take their process with them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import is_alive
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage


@pytest.mark.parametrize(
    ("klass", "cause", "words"),
    [("die", "exit", "code 7"), ("adie", "segfault", "SIGSEGV")],
)
def test_a_job_that_kills_its_process_again_and_again(
    stage: Stage, klass: str, cause: str, words: str
) -> None:
    jid = stage.put_run(klass, "bad", cause, retries=0)
    worker = stage.start()
    job = stage.job_when(jid, "failed")
    assert job.failure is not None
    assert job.failure.group == "worker-crash"
    assert words in job.failure.message
    assert job.crashes == 4
    assert len(stage.runs.of("bad")) == 4
    after = stage.put("answer", 1)
    stage.job_when(after, "complete")
    assert worker.process.poll() is None


def test_a_killed_process_is_replaced_and_its_jobs_run_again(stage: Stage) -> None:
    jids = {
        f"{a}hold-{n}": stage.put_hold(f"{a}hold", f"{a}hold-{n}", retries=0)
        for n in range(2)
        for a in FLAVOURS
    }
    stage.start(concurrency=4)
    first = {name: stage.run_of(name) for name in jids}
    victim = first["hold-0"].pid
    os.kill(victim, signal.SIGKILL)
    again = [name for name, run in first.items() if run.pid == victim]
    for name in again:
        assert stage.run_of(name, times=2).pid != victim
    stage.latch().open()
    for name, jid in jids.items():
        job = stage.job_when(jid, "complete")
        assert job.remaining == 0
        assert len(stage.runs.of(name)) == (2 if name in again else 1)


@pytest.mark.parametrize("a", FLAVOURS)
def test_what_a_job_has_started_dies_with_it(stage: Stage, a: str) -> None:
    stage.put_run(f"{a}have_child", "parent", stage.latch().path)
    stage.start()
    stage.wait(stage.runs.all, "it runs")
    (run,) = stage.runs.all()
    grandchild = int(run.name.partition(":")[2])
    assert is_alive(grandchild)
    os.kill(run.pid, signal.SIGKILL)
    stage.wait(lambda: not is_alive(grandchild), "the grandchild is gone")


def test_everything_dies_with_the_worker(stage: Stage) -> None:
    stage.put_run("have_child", "parent", stage.latch().path)
    worker = stage.start(concurrency=2)
    stage.wait(stage.runs.all, "it runs")
    (run,) = stage.runs.all()
    grandchild = int(run.name.partition(":")[2])
    # This one would not hear of anything.
    stage.put_run("hold_interpreter", "tight", 1000)
    stage.run_of("tight")
    family = worker.family()
    assert grandchild in family
    worker.signal("KILL")
    for pid in family:
        stage.wait(lambda pid=pid: not is_alive(pid), f"{pid} is gone")


def test_a_sandbox_is_clean_and_goes_with_the_job(stage: Stage) -> None:
    folder = stage.folder / "sandboxes"
    folder.mkdir()
    jids = [
        stage.put_run(f"{a}use_sandbox", f"{a}-{n}") for n in range(2) for a in FLAVOURS
    ]
    crashing = stage.put_run("use_sandbox", "crash", "kill", retries=0)
    worker = stage.start(concurrency=2, sandbox=str(folder))
    for jid in jids:
        stage.job_when(jid, "complete")
        assert stage.client.result(jid) == []
    stage.job_when(crashing, "failed")
    used = [Path(run.name.partition(":")[2]) for run in stage.runs.all()]
    assert len(set(used)) == len(used) >= 8
    assert all(folder in path.parents for path in used)
    stage.wait(lambda: not any(path.exists() for path in used), "all are removed")
    worker.signal("TERM")
    assert worker.wait() == 0
    assert [path for path in folder.rglob("*") if path.parent != folder] == []
