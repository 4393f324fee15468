"""Connections: one request at a time each, whatever threads, forks and signals do."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client, PoolExhausted, new_jid
from django_qless.core.connection import Connection
from django_qless.core.request import Steps, drive
from tests.client.jobs import Make
from tests.real_servers import poll

if TYPE_CHECKING:
    from tests.real_servers import Server


def made(client: Client) -> int:
    """Return how many connections a client has."""
    return len(client.pool)


def test_threads_share_connections_and_never_a_request_id(
    valkey: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = valkey()
    ids: list[str] = []
    draw = Connection.next_request

    def noted(connection: Connection) -> str:
        request_id = draw(connection)
        ids.append(request_id)
        return request_id

    monkeypatch.setattr(Connection, "next_request", noted)
    threads = [
        threading.Thread(
            target=lambda: [
                client.put("", "q", new_jid(), "k", "{}") for _ in range(50)
            ]
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.length("q") == 400
    assert len(set(ids)) == len(ids) == 400
    assert len({request_id.split(":")[0] for request_id in ids}) == made(client)
    assert made(client) <= 8


def test_one_caller_needs_one_connection(valkey: Make) -> None:
    client = valkey()
    for _ in range(5):
        client.put("", "q", new_jid(), "k", "{}")
        client.queues()
    assert made(client) == 1


def test_a_connection_is_waited_for_and_then_refused(valkey: Make) -> None:
    client = valkey(options={"max_connections": 2}, patience=0.05)
    taken = [client.pool.acquire(0.05), client.pool.acquire(0.05)]
    with pytest.raises(PoolExhausted, match=r"All 2 connections .* Raise max_conn"):
        client.queues()
    thread = threading.Timer(0.01, client.pool.release, taken[:1])
    client.patience = 10
    thread.start()
    assert client.queues() == []
    thread.join()


def test_a_fork_begins_with_connections_of_its_own(
    valkey: Make, server: Server
) -> None:
    client = valkey()
    client.put("", "q", "before", "k", "{}")
    connection = client.pool.acquire(0.05)
    client.pool.release(connection)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mine = client.pool.acquire(0.05)
            client.pool.release(mine)
            assert mine is not connection
            client.put("", "q", "child", "k", "{}")
            os.write(writer, mine.next_request().encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert status == 0
    with os.fdopen(reader) as pipe:
        assert pipe.read().split(":")[0] != connection.next_request().split(":")[0]
    # The child has not closed, or read from, the parent's connection.
    client.put("", "q", "parent", "k", "{}")
    assert made(client) == 1
    assert client.length("q") == 3


def test_a_fork_while_another_thread_holds_the_lock(valkey: Make) -> None:
    client = valkey()
    with client.pool._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                client.put("", "q", "child", "k", "{}")
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
    assert status == 0


def test_an_interruption_never_shifts_replies(valkey: Make, server: Server) -> None:
    """A signal's exception between request and reply must not leave the reply behind."""
    client = valkey()
    client.put("", "q", "a", "k", "{}")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def send_signal() -> None:
        with server.client() as other:
            poll(
                lambda: other.info("clients")["blocked_clients"],
                what="the request is on its way and not answered",
            )
        os.kill(os.getpid(), signal.SIGUSR1)

    previous = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=send_signal)
    try:
        with server.client() as other:
            other.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                client.put("", "q", "b", "k", "{}")
            thread.join()
            other.execute_command("CLIENT", "UNPAUSE")
    finally:
        signal.signal(signal.SIGUSR1, previous)
    job = client.get("a")
    assert job is not None
    assert job.jid == "a"
    assert client.put("", "q", "c", "k", "{}") == "c"
    assert made(client) == 1


def echo(word: str) -> bytes:
    """Return a request for this word."""
    return b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (len(word), word.encode())


@pytest.mark.parametrize("halfway", [1, 2])
def test_an_exchange_that_is_given_up_leaves_no_reply_behind(
    valkey: Make, halfway: int
) -> None:
    """An event loop that is closed closes what waits in it."""
    connection = valkey().pool.acquire(1)

    def two() -> Steps[None]:
        yield from connection.send(echo("first") + echo("second"))
        yield from connection.receive(None, None)

    for steps in (connection.exchange(echo("first")), two()):
        assert drive(connection.exchange(echo("before"))) == "before"
        for _ in range(halfway):
            next(steps)
        steps.close()
        assert drive(connection.exchange(echo("after"))) == "after"


def test_closing_ends_connections_and_the_next_call_makes_new_ones(
    valkey: Make, server: Server
) -> None:
    client = valkey(options={"client_name": "closing"})
    with server.client() as probe:

        def connections() -> int:
            return sum(each["name"] == "closing" for each in probe.client_list())

        client.queues()
        assert connections() == 1
        client.close()
        poll(lambda: connections() == 0, what="the connection is closed")
        assert client.queues() == []
        assert connections() == 1


def test_a_connection_that_the_server_closed_is_made_again(
    valkey: Make, server: Server
) -> None:
    client = valkey(patience=1)
    client.put("", "q", "a", "k", "{}")
    with server.client() as other:
        other.client_kill_filter(_type="normal", skipme=True)
    assert client.put("", "q", "b", "k", "{}") == "b"


def test_bzpopmin_outlasts_the_socket_timeout(valkey: Make, server: Server) -> None:
    client = valkey(options={"socket_timeout": 0.1})
    assert client.bzpopmin(["nothing", "either"], 0.4) is None
    with server.client() as other:
        timer = threading.Timer(0.3, other.zadd, ("set", {"member": 0}))
        timer.start()
        assert client.bzpopmin(["nothing", "set"], 10) == ("set", "member")
        timer.join()
    # One connection does for all.
    assert client.queues() == []
    assert made(client) == 1


def test_bzpopmin_ends_when_the_connection_is_lost(
    valkey: Make, server: Server
) -> None:
    client = valkey()

    def cut() -> None:
        with server.client() as other:
            poll(
                lambda: other.client_kill_filter(_type="normal", skipme=True),
                what="the blocked client is there",
            )

    thread = threading.Thread(target=cut)
    thread.start()
    assert client.bzpopmin(["nothing"], 30) is None
    thread.join()
    assert client.queues() == []


def test_a_silent_server_is_noticed(valkey: Make, server: Server) -> None:
    client = valkey(options={"socket_timeout": 0.05}, patience=30)
    client.put("", "q", "a", "k", "{}")
    with server.client() as other:
        other.execute_command("CLIENT", "PAUSE", 200, "WRITE")
        # Sent again and again; executed once.
        assert client.put("", "q", "b", "k", "{}") == "b"
    assert client.length("q") == 2
    assert len(client.get("b").history) == 1
