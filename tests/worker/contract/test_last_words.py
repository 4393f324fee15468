"""What reached the worker, or a file, from a process that is dead."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.worker.processes import is_alive, processor_seconds, state_of
from tests.worker.stage import FLAVOURS

if TYPE_CHECKING:
    from tests.worker.stage import Stage

LOOKS = 20
"""How often in a row a process is seen to do nothing before it counts as idle."""


def is_idle(pid: int) -> bool:
    """Return whether a process sleeps; a fork's has ended."""
    return state_of(pid) in "SXZ"


@pytest.mark.parametrize("a", FLAVOURS)
def test_an_outcome_counts_though_its_process_is_killed(stage: Stage, a: str) -> None:
    """The process has told it; whoever it told has not looked yet."""
    jid = stage.put_hold(f"{a}hold", "job", retries=0)
    worker = stage.start()
    run = stage.run_of("job")
    worker.signal("STOP")
    stage.latch().open()
    assert stage.end_of("job").end
    seen: list[object] = []

    def rests() -> bool:
        seen.append(is_idle(run.pid) and seconds_of(run.pid))
        last = seen[-LOOKS:]
        return len(last) == LOOKS and last[0] is not False and len({*last}) == 1

    stage.wait(rests, "its process has no more to do")
    with suppress(ProcessLookupError):
        os.kill(run.pid, signal.SIGKILL)
    worker.signal("CONT")
    job = stage.job_when(jid, "complete")
    assert job.crashes == 0
    assert stage.what_happened(jid) == ["put", "popped", "done"]
    assert stage.client.result(jid) == run.id
    stage.job_when(stage.put("answer", 1), "complete")
    assert len(stage.runs.of("job")) == 1


def seconds_of(pid: int) -> float | None:
    """Return the processor time of a process so far; None if it is gone."""
    with suppress(OSError):
        return processor_seconds([pid])
    return None


@pytest.mark.parametrize("a", FLAVOURS)
def test_what_a_job_prints_is_in_the_log(stage: Stage, a: str) -> None:
    """At once, however the job ends, and though it is no whole line."""
    worker = stage.start(environment={"PYTHONUNBUFFERED": ""})
    for end in ("exit", "kill", "return"):
        text = f"printed before a {end}"
        jid = stage.put_hold(f"{a}print_and_end", end, retries=0)
        run = stage.run_of(end)
        if end != "return":
            stage.wait(lambda pid=run.pid: not is_alive(pid), "it is dead")
            stage.client.cancel(jid)
        stage.wait(
            lambda text=text: text in worker.log.read_text(), "it is there", seconds=2
        )
