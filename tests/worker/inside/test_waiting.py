"""Idle children: woken with a job in their executor, or by an order, or by both at once."""

from __future__ import annotations

import signal
import time
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
from tests.worker.inside.plain import PlainEnvironment
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
