"""Workers and children that end when they have done enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.runs import count
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage


def test_burst_ends_when_all_is_done(stage: Stage) -> None:
    """Also what a running job brings, while others have nothing to do."""
    first = stage.put_hold("ahold", "first")
    stage.put_records(range(20), depends=[first])
    worker = stage.start(burst=True, concurrency=3)
    stage.run_of("first")
    stage.latch().open()
    assert worker.wait() == 0
    assert count(["first", *range(20)], stage.runs.all())[1:] == (0, 0, 0, 0, 0)


def test_burst_waits_for_what_a_crash_gives_back(stage: Stage) -> None:
    jid = stage.put_run("die", "bad", "exit", retries=0)
    other = stage.put_run("arecord", "good", depends=[stage.put("answer", 1)])
    stage.run(concurrency=3)
    assert stage.job(jid).state == "failed"
    assert len(stage.runs.of("bad")) == 4
    assert stage.job(other).state == "complete"


def test_an_idle_worker_ends_after_a_while(stage: Stage) -> None:
    jid = stage.put_run("record", "one")
    worker = stage.start(concurrency=2, max_idle=0.3)
    assert worker.wait() == 0
    assert stage.job(jid).state == "complete"


def test_replacing_children_loses_nothing(stage: Stage) -> None:
    names = [str(n) for n in range(100)]
    stage.put_records(names)
    held = [stage.put_hold(f"{a}hold", f"{a}held") for a in FLAVOURS]
    worker = stage.start(concurrency=3, max_jobs=20)
    stage.wait(lambda: len(stage.runs.ended()) >= len(names), "all have run")
    stage.latch().open()
    for jid in held:
        stage.job_when(jid, "complete")
    counts = count([*names, "held", "aheld"], stage.runs.all())
    assert counts[1:] == (0, 0, 0, 0, 0)
    worker.signal("TERM")
    assert worker.wait() == 0
    assert len({run.pid for run in stage.runs.all()}) > 3


def test_children_grown_old_are_replaced(stage: Stage) -> None:
    stage.start(max_age=0.2)

    def pids() -> set[int]:
        stage.put_run("arecord", "job")
        return {run.pid for run in stage.runs.ended()}

    stage.wait(lambda: len(pids()) > 1, "another has taken over")
