"""What threads and coroutines have in common: a child follows its shared."""

from __future__ import annotations

import asyncio
import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from django_qless.core import Client, Settled
from django_qless.core.commands.entities import entity_jid
from django_qless.core.exceptions import NotPermitted
from django_qless.exceptions import JobLost
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import async_channel, channel, shared_state
from django_qless.worker.pools.async_channel import AsyncChannel
from django_qless.worker.pools.async_child import BUDGET, MOST, STEP, AsyncChild
from django_qless.worker.pools.buffer import JobBuffer, Prefetch
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.worker import Worker
from tests.permissions import set_user, url_of
from tests.real_servers import poll
from tests.worker.inside.plain import PlainEnvironment
from tests.worker.processes import no_new_connections

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.real_servers import Server
    from tests.worker.inside.executors import LoneChild

    Start = Callable[..., LoneChild]

# pytest-xdist has threads, which the children here do not touch.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

WAITS = {"threads": "wait_for", "coroutines": "await_"}
ENTITY_WAITS = {"threads": "wait_for_entity", "coroutines": "await_entity"}


@pytest.fixture(params=WAITS)
def pool(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def waits(pool: str) -> str:
    """The job that waits in the way that suits the child."""
    return WAITS[pool]


def is_blocked(child: LoneChild) -> None:
    """Return when the child waits for jobs, as the server sees it."""
    clients = child.client.redis
    poll(lambda: clients.info("clients")["blocked_clients"], what="it waits")


class TestRoom:
    def test_no_more_jobs_run_and_are_held_than_there_is_room_for(
        self, start: Start, waits: str
    ) -> None:
        child = start(concurrency=3)
        jids = [child.put(waits, child.latch) for _ in range(8)]
        child.running(3)
        # What was too much has not even been taken.
        assert child.client.queue_counts("q").waiting == 5
        assert len(child.shared.held_jobs().all) == 3
        child.open()
        for jid in jids:
            child.when(jid, "complete")

    def test_what_is_held_beyond_that_is_not_started(
        self, start: Start, waits: str
    ) -> None:
        """After many short jobs it is given more than it can run."""
        child = start(concurrency=3)
        child.command(shared_state.QUIET)
        for n in range(300):
            child.put("give", n, priority=1)
        jids = [child.put(waits, child.latch, retries=0) for _ in range(30)]
        child.command(shared_state.QUIET, 0)

        def only_those_that_wait_are_held() -> bool:
            held = child.shared.held_jobs()
            return len(held.running) == len(held.all) == 3 and all(
                job.jid in jids for job in held.running
            )

        # The others go back.
        poll(only_those_that_wait_are_held, what="no more are held")
        child.open()
        for jid in jids:
            assert child.when(jid, "complete").remaining == 0

    def test_it_may_grow_and_shrink(self, start: Start, waits: str) -> None:
        child = start(concurrency=4)
        child.command(shared_state.CAPACITY, 1)
        for _ in range(6):
            child.put(waits, child.latch)
        child.running(1)
        child.command(shared_state.CAPACITY, 4)
        running = child.running(4)
        child.command(shared_state.CAPACITY, 1)
        child.drop({held.token for held in running[:2]})
        poll(lambda: len(child.shared.held_jobs().all) == 2, what="two are settled")
        assert child.running(2) == running[2:]

    def test_a_child_without_room_waits_for_some(self, start: Start) -> None:
        child = start(concurrency=1)
        child.command(shared_state.CAPACITY, 0)
        jid = child.put("give", 1)
        # It follows orders: so it has looked, and has not taken the job.
        poll(lambda: not child.shared.has_commands, what="it has heard of its room")
        assert child.client.queue_counts("q").waiting == 1
        child.command(shared_state.CAPACITY, 1)
        child.when(jid, "complete")

    def test_entities_that_run_together_take_one_place(
        self, start: Start, pool: str, tmp_path: Path
    ) -> None:
        child = start(concurrency=2)
        latches = [tmp_path / f"e{n}" for n in range(6)]
        child.push(ENTITY_WAITS[pool], latches, batch=2)
        child.running(4)
        latches[0].touch()
        # The next do not wait until the other run has ended as well. (They run together,
        # unless one of them is just on its way back, having waited for long.)
        names = {entity_jid("q", at.name) for at in latches[4:]}
        poll(
            lambda: names & {held.jid for held in child.shared.held_jobs().running},
            what="the next run",
        )
        for at in latches:
            at.touch()
        child.holds_nothing()

    def test_many_at_once(self, start: Start, waits: str) -> None:
        child = start(concurrency=300)
        jids = [child.put(waits, child.latch) for _ in range(310)]
        child.running(300)
        child.open()
        for jid in jids:
            child.when(jid, "complete")
        child.holds_nothing()
        assert child.word(shared_state.RUNS) == 310


class TestOrders:
    def test_stop_lets_end_what_runs(self, start: Start, waits: str) -> None:
        child = start(concurrency=2)
        jids = [child.put(waits, child.latch) for _ in range(2)]
        child.running(2)
        child.command(shared_state.STOP)
        later = child.put("give", 1)
        poll(lambda: not child.shared.has_commands, what="it has heard")
        child.open()
        assert child.wait() == 0
        assert {job.state for job in child.client.multiget(jids)} == {"complete"}
        assert child.when(later, "waiting")

    def test_stop_ends_a_wait_for_jobs(self, start: Start) -> None:
        child = start(concurrency=2)
        is_blocked(child)
        child.command(shared_state.STOP)
        assert child.wait() == 0
        assert child.word(shared_state.CALLS) % 2 == 0

    def test_a_nudge_makes_it_ask_again(
        self, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The parent looks for reserved jobs that no child knows."""
        monkeypatch.setattr(channel, "WAIT", 3600)
        child = start(concurrency=2)
        is_blocked(child)
        calls = child.word(shared_state.CALLS)
        child.shared.request_attention()
        child.process.nudge()
        poll(
            lambda: child.word(shared_state.CALLS) > calls + 1,
            what="it has asked again",
        )

    def test_a_job_that_comes_in_the_last_moment_goes_back(self, start: Start) -> None:
        """The order to stop and the job are there when the child wakes up."""
        for _ in range(3):
            child = start(concurrency=2)
            is_blocked(child)
            os.kill(child.process.pid, signal.SIGSTOP)
            jid = child.put("wait_for", child.latch, retries=0)
            assert child.when(jid, "running")
            child.command(shared_state.STOP)
            os.kill(child.process.pid, signal.SIGCONT)
            assert child.wait() == 0
            assert child.when(jid, "waiting").remaining == 0
            child.client.cancel(jid)

    def test_a_term_of_somebody_else_makes_it_leave(
        self, start: Start, waits: str
    ) -> None:
        child = start(concurrency=2)
        jid = child.put(waits, child.latch)
        child.running(1)
        child.terminate()
        poll(lambda: child.word(shared_state.LEAVING), what="it leaves")
        later = child.put("give", 1)
        child.open()
        assert child.wait() == 0
        assert child.when(jid, "complete")
        assert child.when(later, "waiting")

    def test_quiet_gives_nothing_up_but_takes_nothing(
        self, start: Start, waits: str
    ) -> None:
        child = start(concurrency=2)
        jid = child.put(waits, child.latch)
        child.running(1)
        child.command(shared_state.QUIET)
        poll(lambda: not child.shared.has_commands, what="it has heard")
        later = child.put("give", 1)
        child.open()
        child.when(jid, "complete")
        assert child.when(later, "waiting")
        child.command(shared_state.QUIET, 0)
        child.when(later, "complete")

    def test_the_end_of_the_time_to_stop_is_told_to_all(
        self, start: Start, waits: str
    ) -> None:
        child = start(concurrency=3)
        jids = [child.put(waits, child.latch, retries=0) for _ in range(3)]
        child.running(3)
        child.command(shared_state.STOP)
        child.process.interrupt()
        assert child.wait() == 0
        for jid in jids:
            job = child.when(jid, "waiting")
            assert job.remaining == 0

    def test_a_lost_job_is_told_once_and_the_others_go_on(self, start: Start) -> None:
        child = start(concurrency=3)
        jids = [child.put("run_on", child.latch) for _ in range(3)]
        held = {held.jid: held for held in child.running(3)}
        lost = held[jids[0]]
        for _ in range(3):
            child.drop({lost.token})
            poll(lambda: not child.shared.has_commands, what="it has heard")
        child.open()
        results = [
            child.when(jid, "complete") and child.client.result(jid) for jid in jids
        ]
        assert results == ["JobLost", "", ""]


class TestTrouble:
    def test_outcomes_are_kept_until_the_server_takes_them(
        self, start: Start, waits: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Calls are given up soon.
        monkeypatch.setattr(async_channel, "PATIENCE", 0.01)
        child = start(concurrency=4)
        jids = [child.put(waits, child.latch) for _ in range(3)]
        child.running(3)
        with no_new_connections(child.client):
            child.open()
            poll(
                lambda: len(child.shared.held_jobs().finished) == 3,
                what="they have ended",
            )
            poll(lambda: "call failed" in child.output, what="it has given up a call")
        for jid in jids:
            assert child.when(jid, "complete").history[-1]["what"] == "done"
        child.holds_nothing()
        child.when(child.put("give", 1), "complete")

    def test_a_finished_job_does_not_wait_for_the_others(
        self, start: Start, waits: str
    ) -> None:
        """While one runs, and the child waits for more."""
        child = start(concurrency=3)
        child.put(waits, child.latch)
        child.running(1)
        for _ in range(3):
            child.when(child.put("give", 1), "complete")
        child.running(1)

    def test_a_settlement_that_cannot_be_sent_spoils_no_other(
        self, start: Start
    ) -> None:
        child = start(concurrency=8)
        jids = [child.put("give", n) for n in range(20)]
        bad = child.put("give_up_at_length")
        jids += [child.put("give", n) for n in range(20)]
        for jid in jids:
            child.when(jid, "complete")
        failure = child.when(bad, "failed").failure
        assert failure is not None
        assert failure.group == "settlement-refused"
        child.holds_nothing()

    def test_a_hard_limit_is_shown_before_the_job_begins(self, start: Start) -> None:
        child = start(concurrency=2)
        jid = child.put("await_shortly", child.latch)
        (held,) = child.running(1)
        assert (held.hard, held.delay) == (60.0, 7.0)
        child.open()
        child.when(jid, "complete")


def test_what_is_handed_out_when_a_wait_is_broken_off(server: Server) -> None:
    """No other process would know of it."""
    options = WorkerOptions(queues=("q",), name="w")
    worker = Worker(PlainEnvironment(server.url), options)
    shared = SharedState()
    client = Client(server.client())

    async def break_off() -> Settled:
        channel = AsyncChannel(worker, JobBuffer(shared), lambda: None)
        known = await channel.reserve(1)
        assert known is not None
        task = asyncio.create_task(channel.wait(known, 1))
        while not client.redis.info("clients")["blocked_clients"]:
            await asyncio.sleep(0.005)
        # The loop does not turn here: the job is there, and is not seen before the order.
        client.put("", "q", "jid", "give", "{}")
        task.cancel()
        settled = await task
        await channel.close()
        return settled

    settled = asyncio.run(break_off())
    assert [job.jid for job in settled.jobs] == ["jid"]
    assert [held.jid for held in shared.held_jobs().waiting] == ["jid"]
    assert shared.ints[shared_state.CALLS] % 2 == 0
    shared.close()
    client.close()


def test_a_server_that_refuses_the_wait_says_why(server: Server) -> None:
    environment = PlainEnvironment(url_of(server, "worker"))
    worker = Worker(environment, WorkerOptions(queues=("q",), name="w"))
    shared = SharedState()

    async def wait() -> None:
        channel = AsyncChannel(worker, JobBuffer(shared), lambda: None)
        known = await channel.reserve(1)
        assert known is not None
        set_user(server, "worker", "-blpop")
        try:
            await channel.wait(known, 1)
        finally:
            set_user(server, "worker")
            await channel.close()

    with pytest.raises(NotPermitted, match="blpop"):
        asyncio.run(wait())
    assert shared.ints[shared_state.CALLS] % 2 == 0
    shared.close()


def test_interruptions_of_jobs_that_have_ended_are_forgotten() -> None:
    child = cast("AsyncChild", SimpleNamespace())
    child.buffer = cast("JobBuffer", SimpleNamespace(held={"here": None}))
    child.interrupted = {"gone": JobLost, "here": JobLost}
    AsyncChild.interrupt(child, [], JobLost())
    assert child.interrupted == {"here": JobLost}


@pytest.mark.parametrize(
    ("ended", "now", "learned"), [(9, 0.005, False), (9, 0.02, True), (10, 0.005, True)]
)
def test_the_prefetch_rule_learns_from_enough_jobs_or_after_a_while(
    ended: int, now: float, learned: bool
) -> None:
    child = cast("AsyncChild", SimpleNamespace())
    child.buffer = cast("JobBuffer", SimpleNamespace(ended=ended, seconds=0.001))
    child.prefetch = Prefetch(BUDGET, least=0, most=MOST, step=STEP)
    child._learned = (0, 0.0, 0.0)
    AsyncChild.learn(child, now)
    assert (child.prefetch.count > 0) is learned
