"""One process that runs jobs in the tasks of an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.stage import Stage


@pytest.fixture
def pool() -> str:
    return "coroutines"


def test_context_variables_end_with_their_job(stage: Stage) -> None:
    """Also if the next job is started by the end of the one before."""
    jids = [stage.put("leave_mark") for _ in range(100)]
    stage.run(concurrency=2)
    assert {stage.client.result(jid) for jid in jids} == {""}


def test_a_job_that_cancels_its_own_task_has_failed(stage: Stage) -> None:
    jid = stage.put("cancel_oneself", retries=1)
    after = stage.put("aanswer", 1)
    stage.run(concurrency=2)
    failure = stage.job(jid).failure
    assert failure is not None
    assert failure.group == "CancelledError"
    assert stage.job(after).state == "complete"


def test_processes_can_be_waited_for(stage: Stage) -> None:
    jids = [stage.put("wait_for_process") for _ in range(5)]
    stage.run(concurrency=3)
    assert [stage.client.result(jid) for jid in jids] == [0] * 5


def test_a_process_whose_loop_is_blocked_is_ended_and_the_others_go_on(
    stage: Stage,
) -> None:
    blocking = stage.put_run("await_nothing", "blocking", 1000, retries=0)
    stage.start(concurrency=2, block_limit=0.5)
    stage.run_of("blocking")
    other = stage.put_run("arecord", "other", retries=0)
    stage.job_when(blocking, "failed")
    stage.job_when(other, "complete")
