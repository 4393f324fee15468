"""One process that runs jobs in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.stage import Stage


@pytest.fixture
def pool() -> str:
    return "threads"


def test_a_long_sleep_of_the_server_loses_nothing(stage: Stage) -> None:
    """Jobs end while the server does not answer, and thousands are still to come."""
    names = [str(n) for n in range(400)]
    stage.put_records(names, seconds=0.002)
    stage.start(concurrency=20)
    stage.wait(lambda: len(stage.runs.ended()) > 40, "some have run")
    stage.client.redis.execute_command("CLIENT", "PAUSE", "700", "ALL")
    stage.wait(lambda: len(stage.runs.ended()) >= 400, "all have run")
    assert sorted(run.name for run in stage.runs.all()) == sorted(names)


def test_a_long_job_among_short_ones_is_overtaken(stage: Stage) -> None:
    long = stage.put_hold("hold", "long", priority=1)
    short = stage.put_records(range(40))
    stage.start(concurrency=3)
    for jid in short:
        stage.job_when(jid, "complete")
    assert stage.run_of("long").is_open
    stage.latch().open()
    stage.job_when(long, "complete")


def test_jobs_find_the_signals_of_any_program(stage: Stage) -> None:
    """None is blocked: what a job starts would inherit it; none runs in the main thread."""
    jids = [stage.put("look_at_thread") for _ in range(10)]
    stage.run(concurrency=2)
    for jid in jids:
        assert stage.client.result(jid) == [False, []]
