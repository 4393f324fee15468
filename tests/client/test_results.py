"""Waiting for the end of jobs: one blocking call, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from django_qless.core import (
    AsyncClient,
    BadArgument,
    Client,
    ConnectionLost,
    NotPermitted,
    Put,
    Settlement,
    waiting,
)
from tests.client.cutter import Cutter
from tests.client.jobs import Make
from tests.real_servers import Server, poll


def put(client: Client, *jids: str) -> None:
    client.put_many("", [Put(jid, "q", "k", "{}") for jid in jids])


def complete(client: Client, count: int = 1) -> list[str]:
    """Complete the next jobs; return their ids."""
    jobs = client.settle("w", [], count, ["q"]).jobs
    client.settle(
        "w", [Settlement(job.jid, job.token, "complete") for job in jobs], 0, []
    )
    return [job.jid for job in jobs]


def blocked(server: Server) -> int:
    """Return how many clients block at the server."""
    with server.client() as other:
        return int(other.info("clients")["blocked_clients"])


@contextmanager
def when_blocked(
    server: Server, act: Callable[[], object], count: int = 1
) -> Iterator[None]:
    """Do something as soon as this number of clients is blocked."""

    def watch() -> None:
        poll(lambda: blocked(server) == count, what="they wait")
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()


class Counted:
    """How many calls a client makes: those alone, and those behind a wait."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = self.waits = 0
        steps, wait_then = client.steps, waiting._wait_then

        def counted_steps(request: Any) -> Any:
            self.calls += 1
            return steps(request)

        def counted_waits(*args: Any) -> Any:
            self.waits += 1
            return wait_then(*args)

        monkeypatch.setattr(client, "steps", counted_steps)
        monkeypatch.setattr(waiting, "_wait_then", counted_waits)


def test_states(client: Client) -> None:
    put(client, "a")
    complete(client)
    put(client, "b")
    job = client.settle("w", [], 1, ["q"]).jobs[0]
    client.fail(job.jid, job.token, "group", "message")
    assert client.await_ended(["b", "x", "a", "b"]) == {
        "a": "complete",
        "b": "failed",
        "x": "",
    }
    assert client.await_ended([]) == {}


def test_time_is_up(client: Client) -> None:
    put(client, "a")
    complete(client)
    put(client, "b", "c")
    order = ["c", "b", "a"]
    assert client.await_ended(order, 0) == {"a": "complete"}
    assert client.await_ended(order, 0.01) == {"a": "complete"}
    assert client.await_ended(order, -1) == {"a": "complete"}


@pytest.mark.parametrize("part", [1, 2, 3, 100])
def test_many_are_asked_about_some_at_a_time(
    valkey: Make, server: Server, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr("django_qless.core.waiting._PART", part)
    client, other = valkey(), valkey()
    put(client, "a", "b")
    complete(client, 2)
    put(client, "c", "d", "e")
    ended = {"a": "complete", "b": "complete", "x": ""}
    # The first that has not ended is in front of them, among them, or behind them.
    for order in (
        ["c", "a", "x", "b"],
        ["a", "c", "x", "b", "d"],
        ["x", "b", "a", "e"],
    ):
        assert client.await_ended(order, 0.01) == ended
        assert client.await_ended(order, 0) == ended
    assert client.await_ended(["a", "b", "x"]) == ended
    everything = ["e", "a", "d", "x", "c", "b"]
    with when_blocked(server, lambda: complete(other, 3)):
        found = client.await_ended(everything, 20)
    assert found == ended | {"c": "complete", "d": "complete", "e": "complete"}
    assert list(found) == everything


def test_the_end_of_the_wait_is_one_round_trip(
    valkey: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = valkey(), valkey()
    put(client, "a")
    counted = Counted(client, monkeypatch)
    with when_blocked(server, lambda: complete(other)):
        assert client.await_ended(["a"], 20) == {"a": "complete"}
    assert (counted.calls, counted.waits) == (1, 1)


def test_a_long_wait_looks_again(
    valkey: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_qless.core.waiting.LOOK_AGAIN", 0.05)
    client, other = valkey(), valkey()
    put(client, "a")
    counted = Counted(client, monkeypatch)

    def end_unseen() -> None:
        # As a copy of the core would that knows of nobody who waits.
        poll(lambda: counted.waits >= 3, what="it looks again")
        with server.client() as redis:
            redis.hset("ql:j:a", "state", "complete")

    with when_blocked(server, end_unseen):
        assert client.await_ended(["a"]) == {"a": "complete"}
    assert other.run(Client.get.build(other, "a")).state == "complete"


def test_fifty_wait_for_one(server: Server) -> None:
    found: list[dict[str, str]] = []
    with Client(server.client(max_connections=100)) as client:
        put(client, "a")
        threads = [
            threading.Thread(target=lambda: found.append(client.await_ended(["a"], 20)))
            for _ in range(50)
        ]
        with when_blocked(server, lambda: complete(client), 50):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
    assert found == [{"a": "complete"}] * 50


def test_a_thousand_jobs(
    valkey: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = valkey(), valkey()
    jids = [f"j{n:04}" for n in range(1_000)]
    put(client, *jids)
    counted = Counted(client, monkeypatch)

    def work() -> None:
        while complete(other, 100):
            pass

    with when_blocked(server, work):
        assert client.await_ended(jids, 20) == dict.fromkeys(jids, "complete")
    assert counted.calls + counted.waits < 30


@pytest.mark.parametrize("head", [0, 3, 40])
def test_a_lost_reply_is_requested_again(
    valkey: Make, server: Server, cutter: Cutter, head: int
) -> None:
    client, other = valkey(cutter.path), valkey()
    put(client, "a")
    cutter.cut("BLPOP", head=head)
    with when_blocked(server, lambda: complete(other)):
        assert client.await_ended(["a"], 20) == {"a": "complete"}
    assert cutter.cuts == 1


def test_a_core_that_is_gone_after_the_wait_is_loaded_again(
    valkey: Make, server: Server
) -> None:
    client, other = valkey(), valkey()
    put(client, "a")

    def complete_and_flush() -> None:
        with server.client() as redis:
            complete(other)
            redis.function_flush()

    with when_blocked(server, complete_and_flush):
        assert client.await_ended(["a"], 20) == {"a": "complete"}
    assert client.await_ended(["a"]) == {"a": "complete"}


def test_a_wait_outlasts_the_socket_timeout(valkey: Make) -> None:
    client = valkey(options={"socket_timeout": 0.05})
    put(client, "a")
    assert client.await_ended(["a"], 0.3) == {}


def test_a_restart_of_the_server() -> None:
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    with Server("valkey", *kept) as server, Client(server.client()) as client:
        put(client, "a")

        def restart() -> None:
            server.restart()
            with Client(server.client()) as other:
                complete(other)

        with when_blocked(server, restart):
            assert client.await_ended(["a"], 20) == {"a": "complete"}


def test_a_server_that_stays_away() -> None:
    with Server() as server, Client(server.client(), patience=0.2) as client:
        put(client, "a")
        with pytest.raises(ConnectionLost), when_blocked(server, server.kill):
            client.await_ended(["a"], 20)


def test_an_interruption_leaves_nothing_behind(valkey: Make, server: Server) -> None:
    client = valkey(options={"max_connections": 1})
    put(client, "a")
    main = threading.get_ident()

    def interrupt() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(main), ctypes.py_object(KeyboardInterrupt)
        )
        # It is raised when the wait returns to Python.
        with server.client() as redis:
            [mine] = [c["id"] for c in redis.client_list() if c["cmd"] == "blpop"]
            redis.client_unblock(int(mine))

    with pytest.raises(KeyboardInterrupt) as raised, when_blocked(server, interrupt):
        client.await_ended(["a"], 20)
    # The only connection is free, though the exception is still looked at.
    assert complete(client) == ["a"]
    assert client.await_ended(["a"], 20) == {"a": "complete"}
    assert raised


def test_a_user_who_may_not_block_is_told(valkey: Make, server: Server) -> None:
    with server.client() as redis:
        redis.acl_setuser(
            "weak", enabled=True, nopass=True, reset=True, keys=["*"],
            channels=["*"], categories=["+@all"], commands=["-blpop"],
        )  # fmt: skip
    client = valkey(options={"username": "weak", "password": "x"})
    put(client, "a")
    with pytest.raises(NotPermitted):
        client.await_ended(["a"], 20)


@pytest.mark.parametrize("ids", ["a", [1], [""], None])
def test_what_is_no_list_of_ids(valkey: Make, ids: Any) -> None:
    with pytest.raises(BadArgument):
        valkey().await_ended(ids, 1)


def test_async(server: Server) -> None:
    async def run() -> Sequence[Any]:
        async with AsyncClient(server.async_client()) as client:
            await client.put_many("", [Put("a", "q", "k", "{}")])
            early = await client.await_ended(["a"], 0.01)
            waiting = asyncio.create_task(client.await_ended(["a"], 20))
            await asyncio.to_thread(poll, lambda: blocked(server), what="it waits")
            with Client(server.client()) as other:
                await asyncio.to_thread(complete, other)
            return early, await waiting

    assert asyncio.run(run()) == ({}, {"a": "complete"})


def test_an_awaited_wait_may_be_cancelled(server: Server) -> None:
    async def run() -> dict[str, str]:
        redis = server.async_client(max_connections=1)
        async with AsyncClient(redis) as client:
            await client.put_many("", [Put("a", "q", "k", "{}")])
            waiting = asyncio.create_task(client.await_ended(["a"], 20))
            await asyncio.to_thread(poll, lambda: blocked(server), what="it waits")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return await client.await_ended(["a"], 0.01)

    assert asyncio.run(run()) == {}


def test_a_workflow(valkey: Make, server: Server) -> None:
    client, other = valkey(), valkey()
    client.put_workflow("", "f", [Put("a", "q", "k", "{}")])
    with when_blocked(server, lambda: complete(other)):
        assert client.await_ended(["f"], 20, "workflow") == {"f": "complete"}
