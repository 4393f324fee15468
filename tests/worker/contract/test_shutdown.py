"""The ways to the end of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.worker.processes import is_alive
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage

SAID = {"ShuttingDown", "CancelledError"}


def test_the_first_term_lets_running_jobs_end(stage: Stage) -> None:
    stage.client.config_set("heartbeat", 1)
    jids = [stage.put_hold(f"{a}hold", f"{a}hold") for a in FLAVOURS]
    worker = stage.start(concurrency=2)
    for a in FLAVOURS:
        stage.run_of(f"{a}hold")
    later = stage.put_run("record", "later")
    worker.signal("TERM")
    worker.wait_for_log("SIGTERM")
    seen = stage.job(jids[0]).expires
    stage.wait(
        lambda: stage.job(jids[0]).expires > seen + 1.5,
        "the locks are kept during the drain",
    )
    stage.latch().open()
    assert worker.wait() == 0
    for jid in jids:
        assert stage.job(jid).state == "complete"
        assert stage.what_happened(jid) == ["put", "popped", "done"]
    assert stage.job(later).state == "waiting"
    assert not stage.runs.of("later")
    assert stage.client.workers() == []


def test_when_time_is_up_jobs_are_interrupted_then_killed(stage: Stage) -> None:
    """In both cases they are handed back, and nothing is used up."""
    klasses = ("hold", "ahold", "insist", "ainsist")
    jids = {klass: stage.put_hold(klass, klass, retries=0) for klass in klasses}
    worker = stage.start(concurrency=4, shutdown_timeout=0.2)
    runs = {klass: stage.run_of(klass) for klass in klasses}
    worker.signal("TERM")
    assert worker.wait() == 0
    for klass, jid in jids.items():
        job = stage.job(jid)
        assert (job.state, job.remaining, job.crashes) == ("waiting", 0, 0)
        (run,) = stage.runs.of(klass)
        if klass in ("hold", "ahold"):
            assert run.left in SAID
        else:
            assert run.is_open
            assert run.told
            assert set(run.told) <= SAID
        assert not is_alive(runs[klass].pid)


def test_the_second_term_stops_at_once(stage: Stage) -> None:
    klasses = ("hold", "ainsist")
    jids = {klass: stage.put_hold(klass, klass, retries=0) for klass in klasses}
    worker = stage.start(concurrency=2, shutdown_timeout=3600)
    runs = [stage.run_of(klass) for klass in klasses]
    worker.signal("TERM")
    worker.wait_for_log("SIGTERM")
    assert all(is_alive(run.pid) for run in runs)
    worker.signal("TERM")
    assert worker.wait() == 0
    for jid in jids.values():
        job = stage.job(jid)
        assert (job.state, job.remaining, job.crashes) == ("waiting", 0, 0)
    assert not any(is_alive(run.pid) for run in runs)


def test_quit_says_where_the_jobs_are_and_stops(stage: Stage) -> None:
    jids = [stage.put_hold(f"{a}hold", f"{a}hold", retries=0) for a in FLAVOURS]
    worker = stage.start(concurrency=2, shutdown_timeout=3600)
    for a in FLAVOURS:
        stage.run_of(f"{a}hold")
    worker.signal("QUIT")
    worker.wait()
    assert "hold_on" in worker.output
    for jid in jids:
        job = stage.job(jid)
        assert (job.state, job.remaining, job.crashes) == ("waiting", 0, 0)


def test_an_idle_worker_ends_at_once(stage: Stage) -> None:
    worker = stage.start(concurrency=2, shutdown_timeout=3600)
    stage.wait(stage.client.workers, "the worker beats")
    worker.signal("TERM")
    assert worker.wait() == 0
