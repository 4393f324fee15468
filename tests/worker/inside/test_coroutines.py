"""One process that runs jobs in the tasks of an event loop."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from django_qless.worker.execution import Execution
from django_qless.worker.pools import shared_state
from tests.real_servers import poll
from tests.worker.declare import current, job

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Reserved, Settlement
    from tests.worker.inside.executors import LoneChild

    Start = Callable[..., LoneChild]


# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def pool() -> str:
    return "coroutines"


mark: ContextVar[str] = ContextVar("mark", default="")


@job()
async def leave_mark() -> str:
    """Return what others have left; leave something oneself."""
    seen = mark.get()
    mark.set(current().jid)
    await asyncio.sleep(0)
    return seen + (mark.get() if mark.get() != current().jid else "")


@job()
async def block(seconds: float) -> None:
    """Keep the loop from turning."""
    time.sleep(seconds)


@job(backoff=0)
async def cancel_oneself() -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    await asyncio.sleep(10)


@job()
async def leave_a_task(latch: str) -> None:
    """Have something go on after one's end."""

    async def go_on() -> None:
        await asyncio.sleep(3600)

    leave_a_task.task = asyncio.create_task(go_on())  # type: ignore[attr-defined]


@job()
async def wait_for_children() -> int | None:
    """Run a process."""
    process = await asyncio.create_subprocess_exec("sleep", "0")
    return await process.wait()


def test_both_kinds_of_jobs_share_the_room(start: Start) -> None:
    child = start(concurrency=4)
    jids = [
        child.put(klass, child.latch)
        for _ in range(4)
        for klass in ("wait_for", "await_")
    ]
    child.running(4)
    assert child.client.queue_counts("q").waiting == 4
    child.open()
    for jid in jids:
        child.when(jid, "complete")
    child.holds_nothing()


def test_context_variables_end_with_their_job(start: Start) -> None:
    """Also if the next job is started by the end of the one before."""
    child = start(concurrency=2)
    jids = [child.put("leave_mark") for _ in range(100)]
    for jid in jids:
        child.when(jid, "complete")
    assert {child.client.result(jid) for jid in jids} == {""}


def test_a_job_that_cancels_its_own_task_has_failed(start: Start) -> None:
    child = start(concurrency=2)
    jid = child.put("cancel_oneself", retries=1)
    failure = child.when(jid, "failed").failure
    assert failure is not None
    assert failure.group == "CancelledError"
    child.when(child.put("await_now"), "complete")


def test_an_error_of_ones_own_is_a_failure_of_the_job(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ended so would keep its job for ever."""

    async def aperform(execution: Execution, reserved: Reserved) -> Settlement:
        raise asyncio.CancelledError

    monkeypatch.setattr(Execution, "aperform", aperform)
    child = start(concurrency=2)
    failure = child.when(child.put("await_now", retries=0), "failed").failure
    assert failure is not None
    assert failure.group == "CancelledError"
    child.holds_nothing()


def test_what_a_job_leaves_behind_does_not_keep_the_child(start: Start) -> None:
    child = start(concurrency=2)
    child.when(child.put("leave_a_task", child.latch), "complete")
    child.command(shared_state.STOP)
    assert child.wait() == 0


def test_processes_can_be_waited_for(start: Start) -> None:
    child = start(concurrency=3)
    for jid in [child.put("wait_for_children") for _ in range(5)]:
        child.when(jid, "complete")
        assert child.client.result(jid) == 0


@job()
async def await_now() -> None:
    """Return without having waited."""


class TestBlockedLoop:
    def test_the_loop_turns_while_nothing_blocks_it(self, start: Start) -> None:
        child = start(concurrency=2, block_limit=0.4)
        seen = poll(
            lambda: child.shared.floats[shared_state.LOOP_TURNED], what="it turns"
        )
        # Idle, …
        poll(
            lambda: child.shared.floats[shared_state.LOOP_TURNED] > seen,
            what="it turns",
        )
        for klass in ("wait_for", "await_"):
            child.put(klass, child.latch)
        child.running(2)
        # … at work, …
        seen = child.shared.floats[shared_state.LOOP_TURNED]
        poll(
            lambda: child.shared.floats[shared_state.LOOP_TURNED] > seen + 0.5,
            what="it turns",
        )
        # … and quiet.
        child.command(shared_state.QUIET)
        seen = child.shared.floats[shared_state.LOOP_TURNED]
        poll(
            lambda: child.shared.floats[shared_state.LOOP_TURNED] > seen + 0.5,
            what="it turns",
        )
        assert child.word(shared_state.BLOCKING_SLOT) == 0
        assert "blocked" not in child.output

    def test_the_culprit_is_named(self, start: Start) -> None:
        child = start(concurrency=3, block_limit=0.6)
        child.put("await_", child.latch)
        child.running(1)
        jid = child.put("block", 1.5)
        culprit = poll(
            lambda: child.word(shared_state.BLOCKING_SLOT), what="it is found"
        )
        (held,) = [held for held in child.running(2) if held.jid == jid]
        assert culprit == held.slot + 1
        poll(lambda: "the event loop is blocked" in child.output, what="it is logged")
        (line,) = [line for line in child.output.split("\n") if "blocked" in line]
        assert jid in line
        assert "time.sleep(seconds)" in line
        # When the loop turns again, no job is to blame.
        child.when(jid, "complete")
        poll(lambda: not child.word(shared_state.BLOCKING_SLOT), what="it is forgotten")


def test_orders_are_followed_beside_jobs_that_wait(start: Start) -> None:
    child = start(concurrency=2)
    (held,) = (child.put("await_", child.latch), child.running(1))[1]
    child.drop({held.token})
    # Its lock is not lost in truth: handed back, it runs again.
    poll(
        lambda: (
            (now := child.shared.held_jobs().running) and now[0].token != held.token
        ),
        what=f"it runs again: {child.shared.held_jobs()} {child.output}",
    )
    assert "interrupted" in child.output
