"""Idle children: woken with a job in their executor, or by an order, or by both at once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from django_qless.core.exceptions import ConnectionLost, NotPermitted
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import shared_state
from django_qless.worker.pools.blocking_channel import BlockingChannel
from django_qless.worker.pools.buffer import JobBuffer
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.worker import Worker
from tests.permissions import set_user, url_of
from tests.real_servers import poll
from tests.worker.plain import PlainEnvironment
from tests.worker.test_crashes import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.core import Client, Job, Settled
    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]
    JobWhen = Callable[[str, str], Job]

both_pools = pytest.mark.parametrize("pool", ["prefork", "fork"])


def channel_at(url: str) -> BlockingChannel:
    worker = Worker(PlainEnvironment(url), WorkerOptions(queues=("q",)))
    shared = SharedState()
    shared.floats[shared_state.HEARTBEAT_INTERVAL] = 10.0
    return BlockingChannel(worker, JobBuffer(shared), lambda: None)


@pytest.fixture
def channel(server: Server) -> BlockingChannel:
    """The calls of a child, without the child."""
    return channel_at(server.url)


@pytest.fixture
def limited(server: Server) -> Iterator[Callable[..., None]]:
    """Takes rules away from the documented user of a worker."""

    def limit(*rules: str) -> None:
        set_user(server, "worker", *rules)

    yield limit
    set_user(server, "worker")


class TestBlockingChannel:
    def test_it_notes_when_the_server_answered(self, channel: BlockingChannel) -> None:
        floats, before = channel.shared.floats, time.monotonic()
        channel.reserve(1)
        assert before <= floats[shared_state.LAST_ANSWER] <= time.monotonic()

    def test_a_wait_brings_the_job(self, channel: BlockingChannel, put: Put) -> None:
        known = channel.reserve(1)
        assert known is not None
        jid = put("give", 1)
        settled = channel.wait(known, lambda wait: wait())
        assert settled is not None
        assert [job.jid for job in settled.jobs] == [jid]
        assert [held.jid for held in channel.shared.held_jobs().waiting] == [jid]
        assert channel.shared.ints[shared_state.CALLS] % 2 == 0

    def test_what_came_as_the_wait_was_ended_is_here(
        self, channel: BlockingChannel, put: Put
    ) -> None:
        def forget(wait: Callable[[], Settled]) -> None:
            assert channel.shared.ints[shared_state.CALLS] % 2 == 1
            wait()

        known = channel.reserve(1)
        assert known is not None
        jid = put("give", 1)
        settled = channel.wait(known, forget)
        assert settled is not None
        assert [job.jid for job in settled.jobs] == [jid]
        assert [held.jid for held in channel.shared.held_jobs().waiting] == [jid]
        assert channel.shared.ints[shared_state.CALLS] % 2 == 0

    def test_after_a_signal_nothing_comes_any_more(
        self, channel: BlockingChannel, put: Put, client: Client
    ) -> None:
        class Ring(Exception):
            pass

        def ring(*args: object) -> None:
            raise Ring

        def be_woken(wait: Callable[[], Settled]) -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Ring):
                wait()

        known = channel.reserve(1)
        assert known is not None
        before = signal.signal(signal.SIGALRM, ring)
        try:
            settled = channel.wait(known, be_woken)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert settled is not None
        assert settled.jobs == []
        jid = put("give", 1)
        assert client.get(jid).state == "waiting"  # type: ignore[union-attr]
        assert [job.jid for job in channel.reserve(1).jobs] == [jid]  # type: ignore[union-attr]

    def test_a_lost_answer_is_asked_for(
        self, channel: BlockingChannel, put: Put
    ) -> None:
        def lose(wait: Callable[[], Settled]) -> None:
            wait()
            raise ConnectionLost("the reply is lost")

        known = channel.reserve(1)
        assert known is not None
        jid = put("give", 1)
        with pytest.raises(ConnectionLost):
            channel.wait(known, lose)
        # A search for lost jobs waits until this is known.
        assert channel.shared.ints[shared_state.CALLS] % 2 == 1
        assert channel._unresolved is not None
        settled = channel.reserve(1)
        assert settled is not None
        assert [job.jid for job in settled.jobs] == [jid]
        assert channel._unresolved is None
        assert channel.shared.ints[shared_state.CALLS] % 2 == 0

    def test_a_server_that_refuses_the_wait_says_why(
        self, server: Server, limited: Callable[..., None]
    ) -> None:
        channel = channel_at(url_of(server, "worker"))
        known = channel.reserve(1)
        assert known is not None
        limited("-blpop")
        with pytest.raises(NotPermitted, match="blpop"):
            channel.wait(known, lambda wait: wait())
        assert channel.shared.ints[shared_state.CALLS] % 2 == 0

    def test_no_answer_is_due_after_a_refusal(
        self, server: Server, limited: Callable[..., None]
    ) -> None:
        channel = channel_at(url_of(server, "worker"))
        known = channel.reserve(1)
        assert known is not None
        limited("-@scripting")
        with pytest.raises(NotPermitted):
            channel.wait(known, lambda wait: wait())
        assert channel._unresolved is None
        assert channel.shared.ints[shared_state.CALLS] % 2 == 0

    @pytest.mark.parametrize("error", [ConnectionLost("away"), NotPermitted("no")])
    def test_only_a_lost_connection_leaves_the_answer_to_be_asked_for(
        self,
        channel: BlockingChannel,
        put: Put,
        monkeypatch: pytest.MonkeyPatch,
        error: Exception,
    ) -> None:
        def lose(wait: Callable[[], Settled]) -> None:
            wait()
            raise ConnectionLost("the reply is lost")

        def fail(*args: object) -> None:
            raise error

        known = channel.reserve(1)
        assert known is not None
        put("give", 1)
        with pytest.raises(ConnectionLost):
            channel.wait(known, lose)
        monkeypatch.setattr("django_qless.core.waiting.After.run_instead", fail)
        with pytest.raises(type(error)):
            channel.reserve(1)
        is_due = isinstance(error, ConnectionLost)
        assert (channel._unresolved is not None) is is_due
        # The parent looks for the jobs of a child that dies in a call.
        assert channel.shared.ints[shared_state.CALLS] % 2 == is_due


@both_pools
def test_orders_in_the_moment_of_the_hand_out_lose_nothing(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, pool: str
) -> None:
    """Locks last for an hour here: they are not what brings the jobs back."""
    client.config_set("heartbeat", 3600)
    worker = start_worker(queues=["q"], pool=pool, verbosity=1)
    put("say", ledger.path, "first")
    ledger.wait_for("first")
    for n in range(60):
        put("say", ledger.path, n)
        worker.signal("TSTP")
        worker.signal("CONT")
        if n % 10 == 9:
            ledger.wait_until(n + 2)
    ledger.wait_until(61)
    poll(lambda: not client.length("q"), what="all are settled")
    assert sorted(map(int, ledger.all()[1:])) == list(range(60))


@both_pools
def test_the_end_in_the_moment_of_the_hand_out_loses_nothing(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client, pool: str
) -> None:
    client.config_set("heartbeat", 3600)
    jids = []
    for n in range(6):
        worker = start_worker(queues=["q"], pool=pool)
        if n == 0:
            put("say", ledger.path, "first")
        # It has run what the one before has left, or been told to leave.
        poll(lambda: not client.length("q"), what="the queue is empty")
        poll(lambda: client.redis.info()["blocked_clients"], what="the worker waits")
        jids.append(put("say", ledger.path, n))
        worker.signal("TERM")
        assert worker.wait() == 0
        job = client.get(jids[-1])
        assert job is not None
        assert job.state in ("complete", "waiting")
    told = ledger.all()
    assert len(told) == len(set(told))


def test_what_was_asked_of_a_server_that_went_away_is_found_out(
    start_worker: StartWorker, put: Put, ledger: Ledger, client: Client
) -> None:
    """A wait is broken off again and again; each time the child asks what it has brought."""
    client.config_set("heartbeat", 3600)
    start_worker(queues=["q"]).wait_for_log("started")
    for n in range(30):
        put("say", ledger.path, n)
        client.redis.client_kill_filter(_type="normal", skipme=True)
    ledger.wait_until(30)
    poll(lambda: not client.length("q"), what="all are settled")
    assert sorted(map(int, ledger.all())) == list(range(30))


@both_pools
def test_a_job_that_was_taken_away_is_announced_as_lost(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    client: Client,
    pool: str,
) -> None:
    """The parent need not have noticed: the server refuses the settlement."""
    client.config_set("heartbeat", 3600)
    jid = put("stay", ledger.path, gate.path, "job")
    worker = start_worker(queues=["q"], pool=pool, announcements=ledger.path)
    pid = running(ledger, "job")
    # While it is suspended, the parent notices nothing.
    os.kill(worker.pid, signal.SIGSTOP)
    client.cancel(jid)
    gate.open()
    ledger.wait_for("over job")
    ledger.wait_for("lost stay -")
    os.kill(worker.pid, signal.SIGCONT)
    worker.wait_for_log("refused")
    assert running(ledger, "job") == pid


@both_pools
def test_one_by_one_means_that_nothing_else_is_held(
    start_worker: StartWorker,
    put: Put,
    ledger: Ledger,
    gate: Gate,
    client: Client,
    job_when: JobWhen,
    pool: str,
) -> None:
    for n in range(40):
        put("give", n)
    slow = put("stay", ledger.path, gate.path, "slow")
    after = [put("give", n) for n in range(40)]
    worker = start_worker(queues=["q"], pool=pool, batch=1, verbosity=3)
    running(ledger, "slow")
    assert {job.state for job in client.multiget(after)} == {"waiting"}
    gate.open()
    job_when(slow, "complete")
    job_when(after[-1], "complete")
    # Settled and reserved in one call each.
    assert worker.output.count("settled=1 reserved=1") >= 78
    assert "reserved=2" not in worker.output


@both_pools
def test_a_long_job_shows_in_the_list_of_processes(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, pool: str
) -> None:
    jid = put("stay", ledger.path, gate.path, "job")
    start_worker(queues=["q"], pool=pool)
    pid = running(ledger, "job")
    title = Path(f"/proc/{pid}/cmdline").read_text()
    assert f"running stay {jid}" in title
    gate.open()


@pytest.mark.parametrize("pool", ["prefork", "coroutines"])
def test_what_falls_due_does_not_wait_for_a_killed_worker(
    start_worker: StartWorker, put: Put, job_when: JobWhen, client: Client, pool: str
) -> None:
    """The one that was to look at that very time is killed; another looks after it."""
    server = client.redis
    began = time.monotonic()
    first = start_worker(queues=["q"], pool=pool)
    poll(lambda: server.zcard("ql:idle:q") == 1, what="the first waits")
    # On a busy machine the second one takes as long to start.
    jid = put("give", 1, delay=3 + 3 * (time.monotonic() - began))
    due = server.zscore("ql:q:q-scheduled", jid)
    start_worker(queues=["q"], pool=pool)
    poll(lambda: server.zcard("ql:idle:q") == 2, what="the second waits as well")
    first.close()
    assert server.zscore("ql:q:q-scheduled", jid) == due
    job = job_when(jid, "complete")
    [popped] = [entry["when"] for entry in job.history if entry["what"] == "popped"]
    # Without a word to the second it would have slept on for seconds.
    assert popped - due < 1
