"""Heartbeats, the worker info in them, and the events that bring them forward."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Beat, Client
from django_qless.core.commands.operations import WorkerCounts
from django_qless.core.exceptions import ConnectionLost
from django_qless.worker.heartbeat import (
    AFTER_REFUSAL,
    MAX_INTERVAL,
    MIN_GAP,
    EventListener,
    Heartbeat,
    WorkerInfo,
    interval_for,
)
from django_qless.worker.options import WorkerOptions
from django_qless.worker.shutdown import Shutdown
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from tests.worker.conftest import WorkerProcess

    StartWorker = Callable[..., WorkerProcess]

    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.real_servers import Server
    from tests.worker.conftest import WorkerProcess

    Put = Callable[..., str]
    StartWorker = Callable[..., WorkerProcess]


class FakeClient:
    """Answers beats as told: this is about when to beat, not about the server."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls = 0

    def beat(self, worker: str, info: str, held: Any) -> Any:
        self.calls += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class TestHeartbeat:
    def test_the_pace_is_a_third_of_the_lock_and_at_most_10_s(self) -> None:
        assert interval_for(60) == MAX_INTERVAL == 10
        assert interval_for(6) == 2
        assert interval_for(-1) > 0

    def test_a_short_lock_hurries_it(self) -> None:
        heartbeat = Heartbeat(None, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.due += 100
        heartbeat.shorten_interval(60)
        assert heartbeat.interval == 10
        before = heartbeat.due
        heartbeat.shorten_interval(3)
        assert heartbeat.interval == 1
        assert heartbeat.due < before

    def test_it_keeps_the_pace_of_the_shortest_lock(self) -> None:
        heartbeat = Heartbeat(None, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.set_interval([60, 9, 15])
        assert heartbeat.interval == 3
        heartbeat.set_interval([])
        assert heartbeat.interval == MAX_INTERVAL

    def test_it_survives_any_exception_and_tries_again_soon(self) -> None:
        client = FakeClient(RuntimeError("no"), OSError("no"))
        heartbeat = Heartbeat(client, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.interval = 0.0
        for _ in range(2):
            assert heartbeat.beat([("a", "1", None)]) == Beat([], [])
            assert heartbeat.due <= time.monotonic() + 0.1
        assert not client.answers
        assert heartbeat.last_success == 0.0

    def test_it_knows_when_the_server_last_answered(self) -> None:
        client = FakeClient(Beat(["a"], ["quiet"]), OSError("no"))
        heartbeat = Heartbeat(client, "w", lambda: "{}")  # type: ignore[arg-type]
        assert heartbeat.beat([("a", "1", None)]) == Beat(["a"], ["quiet"])
        good = heartbeat.last_success
        assert good > 0.0
        heartbeat.beat([])
        assert heartbeat.last_success == good

    def test_a_hint_hurries_it_but_many_do_not_make_it_race(self) -> None:
        client = FakeClient(Beat([], []))
        heartbeat = Heartbeat(client, "w", lambda: "{}")  # type: ignore[arg-type]
        heartbeat.beat([])
        last = time.monotonic()
        assert heartbeat.due > last + 5
        for _ in range(3):
            heartbeat.beat_soon()
        assert heartbeat.due == pytest.approx(last + MIN_GAP, abs=0.01)
        heartbeat.due = last - 1
        heartbeat.beat_soon()
        assert heartbeat.due == last - 1

    def test_a_server_that_is_away_tells_of_no_job(self) -> None:
        """A job that is only thought to be canceled would be ended for nothing."""

        class Away:
            def worker_jobs(self, worker: str) -> Any:
                raise ConnectionLost("away")

            get = worker_jobs

        heartbeat = Heartbeat(Away(), "w", lambda: "{}")  # type: ignore[arg-type]
        assert heartbeat.held() == {}
        assert heartbeat.is_canceled("jid") is False

    def test_the_server_tells_which_jobs_are_held_and_which_canceled(
        self, client: Client
    ) -> None:
        for jid in ("a", "b", "c"):
            client.put("", "q", jid, "k", "{}")
        one, two = client.settle("w", [], 2, ["q"]).jobs
        heartbeat = Heartbeat(client, "w", lambda: "{}")
        assert heartbeat.held() == {one.jid: one.token, two.jid: two.token}
        client.cancel(one.jid)
        assert heartbeat.held() == {two.jid: two.token}
        assert [heartbeat.is_canceled(job.jid) for job in (one, two)] == [True, False]
        assert not heartbeat.is_canceled("nosuch")


NOW = 1_000_000.0


def worker(name: str = "w", silent: float = 0.0, **info: Any) -> WorkerCounts:
    return WorkerCounts(name, 0, 0, NOW - silent, info or None)


class TestWorkerInfo:
    def test_it_is_about_this_process_and_its_options(self) -> None:
        options = WorkerOptions(queues=("a", "b*"), concurrency=3, name="w")
        said = json.loads(WorkerInfo(options, Shutdown(10)).to_json())
        assert said["queues"] == ["a", "b*"]
        assert said["concurrency"] == 3
        assert said["state"] == "running"
        assert said["processes"] >= 1
        assert said["memory"] > 1_000_000

    def test_a_new_state_is_news_until_it_is_said(self) -> None:
        shutdown = Shutdown(10)
        info = WorkerInfo(WorkerOptions(queues=("a",), name="w"), shutdown)
        assert info.has_changed
        info.to_json()
        assert not info.has_changed
        shutdown.quiet = True
        assert info.has_changed
        assert json.loads(info.to_json())["state"] == "quiet"
        assert not info.has_changed


def subscribers(client: Client) -> int:
    """Return how many listen on the channel of the worker `w`."""
    ((_, count),) = client.redis.pubsub_numsub("ql:w:w")
    return int(count)


class TestEventListener:
    @pytest.fixture
    def listener(self, server: Server) -> Iterator[EventListener]:
        listener = EventListener(Client(server.client()), "w")
        yield listener
        listener.close()

    def heard(self, listener: EventListener) -> bool:
        """Return what the next look brings that brings anything."""
        assert listener.fileno() is not None
        return poll(listener.listen, what="something is heard")

    def subscribe(self, listener: EventListener, client: Client) -> None:
        def listens() -> bool:
            assert not listener.listen()
            return subscribers(client) == 1

        poll(listens, what="it listens")

    def test_it_listens_without_waiting(
        self, listener: EventListener, client: Client
    ) -> None:
        assert listener.fileno() is None
        assert listener.due <= time.monotonic()
        self.subscribe(listener, client)
        assert listener.due > time.monotonic()
        client.redis.publish("ql:w:w", '{"event":"put","jid":"a"}')
        assert self.heard(listener)
        assert not listener.listen()

    def test_other_words_are_no_hints(
        self, listener: EventListener, client: Client
    ) -> None:
        self.subscribe(listener, client)
        for text in ('{"event":"completed"}', "no JSON", "[]", '{"event":"order"}'):
            client.redis.publish("ql:w:w", text)
        # The last of them is one.
        assert self.heard(listener)
        assert not listener.listen()

    def test_a_changed_schedule_is_noted_and_no_hint(
        self, listener: EventListener, client: Client
    ) -> None:
        self.subscribe(listener, client)
        listener.schedules_changed = False
        client.schedule_due("w")
        client.schedule_set("s", "q", "k", "{}", cron="* * * * *")

        def look() -> bool:
            assert not listener.listen()
            return listener.schedules_changed

        poll(look, what="the change is heard of")

    def test_a_new_connection_is_a_hint(
        self, listener: EventListener, client: Client
    ) -> None:
        self.subscribe(listener, client)
        client.redis.client_kill_filter(_type="pubsub")
        assert poll(listener.listen, what="it listens again")
        assert subscribers(client) == 1

    def test_it_leaves_no_connection_open(
        self, listener: EventListener, client: Client
    ) -> None:
        self.subscribe(listener, client)
        listener.close()
        assert listener.fileno() is None
        poll(lambda: subscribers(client) == 0, what="the server has noticed")

    def test_without_a_server_it_asks_less_and_less_often(self, tmp_path: Path) -> None:
        import redis

        nowhere = redis.Redis(unix_socket_path=str(tmp_path / "nowhere.sock"))
        listener = EventListener(Client(nowhere), "w")
        pauses: list[float] = []
        for _ in range(12):
            poll(lambda: time.monotonic() >= listener.due, what="it is due")
            assert not listener.listen()
            pauses.append(listener.due - time.monotonic())
        assert pauses[-1] > 0.3 > 0.01 > pauses[0]
        # Before it is due, a look changes nothing.
        due = listener.due
        assert not listener.listen()
        assert listener.due == due
        assert listener.fileno() is None

    def test_who_may_not_listen_works_on_without(
        self, server: Server, client: Client
    ) -> None:
        client.redis.acl_setuser(
            "deaf", enabled=True, passwords=["+x"], commands=["+@all", "-subscribe"]
        )
        user = server.client(username="deaf", password="x")
        listener = EventListener(Client(user), "w")
        poll(
            lambda: listener.listen() or listener.due > time.monotonic() + 30, what="no"
        )
        assert listener.due <= time.monotonic() + AFTER_REFUSAL
        assert listener.fileno() is None
