"""A worker hears what concerns its jobs long before its next heartbeat is due."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client
from django_qless.worker.hearing import AFTER_REFUSAL, Hearing
from tests.servers import poll
from tests.worker.conftest import is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import Server
    from tests.worker.conftest import WorkerProcess
    from tests.worker.ledger import Gate, Ledger

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]

# Seconds in which a hint must have had its effect. Locks last for an hour in these tests,
# so heartbeats come every 8 to 10 s: they alone would be later, mostly.
SOON = 5.0


@pytest.fixture
def runs(
    start_worker: StartWorker, put: Put, ledger: Ledger, gate: Gate, client: Client
) -> tuple[str, int]:
    """A job that runs in a worker `w` that has just beaten: its jid, and its process."""
    client.config_set("heartbeat", 3600)
    start_worker(queues=["q"], name="w", verbosity=3)
    jid = put("stay", ledger.path, gate.path, "job", retries=3)
    pid = int(ledger.wait_until(1)[0].split()[2])
    poll(lambda: subscribers(client), what="the worker listens")
    return jid, pid


def subscribers(client: Client) -> int:
    """Return how many listen on the channel of the worker `w`."""
    ((_, count),) = client.redis.pubsub_numsub("ql:w:w")
    return int(count)


def gone(pid: int) -> None:
    poll(lambda: not is_alive(pid), what="the job's process is gone", seconds=SOON)


def test_a_cancelled_job_is_ended_at_once(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    client.cancel(jid)
    gone(pid)


def test_a_job_that_is_taken_away_is_ended_at_once(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    client.get(jid).move("elsewhere")  # type: ignore[union-attr]
    gone(pid)
    assert client.queue_counts("elsewhere").waiting == 1


def test_a_lock_that_times_out_by_order_is_lost_at_once(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    client.timeout(jid)
    gone(pid)


def test_what_happened_while_it_could_not_hear_is_seen_at_the_reconnection(
    runs: tuple[str, int], client: Client
) -> None:
    jid, pid = runs
    with client.redis.pipeline() as both:
        both.client_kill_filter(_type="pubsub")
        both.execute_command(
            "EVAL", "redis.call('DEL', KEYS[1])", 1, f"ql:j:{jid}"
        )  # no message goes out
        both.execute()
    gone(pid)
    assert subscribers(client) == 1


def test_an_order_is_heard_at_once(
    runs: tuple[str, int], client: Client, start_worker: StartWorker
) -> None:
    client.order("w", "dump")
    text = poll(lambda: client.stacks("w"), what="the stacks are there", seconds=SOON)
    assert "wait_at" in text


class TestHearing:
    @pytest.fixture
    def hearing(self, server: Server) -> Iterator[Hearing]:
        hearing = Hearing(Client(server.client()), "w")
        yield hearing
        hearing.close()

    def heard(self, hearing: Hearing) -> bool:
        """Return what the next look brings that brings anything."""
        assert hearing.fileno() is not None
        return poll(hearing.listen, what="something is heard")

    def subscribe(self, hearing: Hearing, client: Client) -> None:
        def listens() -> bool:
            assert not hearing.listen()
            return subscribers(client) == 1

        poll(listens, what="it listens")

    def test_it_listens_without_waiting(self, hearing: Hearing, client: Client) -> None:
        assert hearing.fileno() is None
        assert hearing.due <= time.monotonic()
        self.subscribe(hearing, client)
        assert hearing.due > time.monotonic()
        client.redis.publish("ql:w:w", '{"event":"put","jid":"a"}')
        assert self.heard(hearing)
        assert not hearing.listen()

    def test_other_words_are_no_hints(self, hearing: Hearing, client: Client) -> None:
        self.subscribe(hearing, client)
        for text in ('{"event":"completed"}', "no JSON", "[]", '{"event":"order"}'):
            client.redis.publish("ql:w:w", text)
        # The last of them is one.
        assert self.heard(hearing)
        assert not hearing.listen()

    def test_a_changed_schedule_is_noted_and_no_hint(
        self, hearing: Hearing, client: Client
    ) -> None:
        self.subscribe(hearing, client)
        hearing.schedules_changed = False
        client.schedule_due("w")
        client.schedule_set("s", "q", "k", "{}", cron="* * * * *")

        def look() -> bool:
            assert not hearing.listen()
            return hearing.schedules_changed

        poll(look, what="the change is heard of")

    def test_a_new_connection_is_a_hint(self, hearing: Hearing, client: Client) -> None:
        self.subscribe(hearing, client)
        client.redis.client_kill_filter(_type="pubsub")
        assert poll(hearing.listen, what="it listens again")
        assert subscribers(client) == 1

    def test_without_a_server_it_asks_less_and_less_often(self, tmp_path: Path) -> None:
        import redis

        nowhere = redis.Redis(unix_socket_path=str(tmp_path / "nowhere.sock"))
        hearing = Hearing(Client(nowhere), "w")
        pauses: list[float] = []
        for _ in range(12):
            poll(lambda: time.monotonic() >= hearing.due, what="it is due")
            assert not hearing.listen()
            pauses.append(hearing.due - time.monotonic())
        assert pauses[-1] > 0.3 > 0.01 > pauses[0]
        # Before it is due, a look changes nothing.
        due = hearing.due
        assert not hearing.listen()
        assert hearing.due == due
        assert hearing.fileno() is None

    def test_who_may_not_listen_works_on_without(
        self, server: Server, client: Client
    ) -> None:
        client.redis.acl_setuser(
            "deaf", enabled=True, passwords=["+x"], commands=["+@all", "-subscribe"]
        )
        user = server.client(username="deaf", password="x")
        hearing = Hearing(Client(user), "w")
        poll(lambda: hearing.listen() or hearing.due > time.monotonic() + 30, what="no")
        assert hearing.due <= time.monotonic() + AFTER_REFUSAL
        assert hearing.fileno() is None
