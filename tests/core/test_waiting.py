"""A wait and the call behind it, in one round trip; whatever breaks it off."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from django_qless.core import (
    AsyncClient,
    BadArgument,
    Client,
    ConnectionLost,
    JobNotFound,
    NotPermitted,
    Put,
    Settled,
    Settlement,
)
from django_qless.core.request import Request
from tests.core.cutter import Cutter
from tests.core.jobs import Make, in_loop
from tests.real_servers import poll

if TYPE_CHECKING:
    from tests.real_servers import Server


class Interruption(Exception):
    """What a signal handler raises."""


def asking(client: Any, count: int = 1, *queues: str) -> Request[Settled]:
    """Return the call that a worker without jobs makes."""
    wanted = queues or ("q",)
    return Client.settle.build(client, "w", (), count, wanted, wait=30)


def nothing(client: Any) -> Request[Settled]:
    """Return the harmless call."""
    return Client.settle.build(client, "w", (), 0, ())


def idle(client: Client) -> list[str]:
    """Ask in vain, and return the keys to wait on."""
    settled = client.run(asking(client))
    assert settled.jobs == []
    return list(settled.wait_keys)


def blocked(other: redis.Redis) -> bool:
    """Return whether a client waits at the server."""
    return bool(other.info("clients")["blocked_clients"])


@contextmanager
def when_blocked(
    server: Server, act: Callable[[redis.Redis], object]
) -> Iterator[None]:
    """Meanwhile do something as soon as a client is blocked."""

    def watch() -> None:
        with server.client() as other:
            poll(lambda: blocked(other), what="somebody waits")
            act(other)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Within, the function interrupts the main thread with an exception."""

    def interrupt(*_: Any) -> None:
        raise Interruption

    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, previous)


def put(server: Server, jid: str = "a") -> None:
    """Put a job as somebody else does."""
    with server.client() as other, Client(other) as producer:
        producer.put("", "q", jid, "k", "{}")


def test_the_announced_job_comes_with_the_wake_up(
    client: Client, each_server: Server
) -> None:
    after = client.after(idle(client), 30, asking(client))
    with when_blocked(each_server, lambda _: put(each_server)):
        settled = after.run()
    assert [job.jid for job in settled.jobs] == ["a"]
    assert after.announced
    assert after.refusal is None
    # The same connection goes on with the next call, and with the next wait.
    done = [Settlement("a", settled.jobs[0].token, "complete", ())]
    keys = client.settle("w", done, 1, ["q"], wait=30).wait_keys
    assert client.after(keys, 0.01, asking(client)).run().jobs == []
    assert len(client.pool) == 1


def test_an_element_that_is_there_already_ends_the_wait_at_once(
    client: Client, each_server: Server
) -> None:
    keys = idle(client)
    put(each_server)
    assert [job.jid for job in client.after(keys, 30, asking(client)).run().jobs] == [
        "a"
    ]


def test_when_time_is_up_the_call_is_made_all_the_same(client: Client) -> None:
    after = client.after(idle(client), 0.01, asking(client))
    settled = after.run()
    assert not after.announced
    assert settled.jobs == []
    assert settled.wait_keys


def test_a_core_that_is_gone_meanwhile_is_loaded_again(
    client: Client, each_server: Server
) -> None:
    client.put("", "q", "a", "k", "{}")
    with each_server.client() as other:
        other.function_flush()
        other.script_flush()
    settled = client.after(["ql:nothing"], 0.01, asking(client)).run()
    assert [job.jid for job in settled.jobs] == ["a"]


def test_a_wait_outlasts_the_socket_timeout(valkey: Make) -> None:
    client = valkey(options={"socket_timeout": 0.05})
    assert client.after(idle(client), 0.3, asking(client)).run().jobs == []


@pytest.mark.parametrize("head", [0, 3, 40, 120])
def test_a_lost_reply_is_asked_for_again(
    valkey: Make, server: Server, cutter: Cutter, head: int
) -> None:
    client = valkey(cutter.path)
    keys = idle(client)
    cutter.cut("BLPOP", head=head)
    after = client.after(keys, 30, asking(client))
    with when_blocked(server, lambda _: put(server)):
        (job,) = after.run().jobs
    assert cutter.cuts == 1
    assert (job.jid, job.token) == ("a", client.meta()["token"])
    assert client.queue("q").counts().running == 1


def test_a_lost_connection_ends_the_wait(valkey: Make, server: Server) -> None:
    client = valkey()
    after = client.after(idle(client), 30, asking(client))
    with when_blocked(
        server, lambda r: r.client_kill_filter(_type="normal", skipme=True)
    ):
        assert after.run().jobs == []
    assert not after.announced


def test_a_server_that_stays_away_leaves_the_request_open(
    valkey: Make, server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path, patience=0.05)
    keys = idle(client)
    put(server)
    cutter.cut("settle", times=1_000_000)
    after = client.after(keys, 30, asking(client))
    with pytest.raises(ConnectionLost):
        after.run()
    with pytest.raises(ConnectionLost):
        after.run_instead(nothing(client))
    cutter.cut("no longer")
    (job,) = after.run_instead(nothing(client)).jobs
    assert job.token == client.meta()["token"]


def test_the_server_may_refuse_the_wait(valkey: Make, server: Server) -> None:
    client = valkey(options={"username": "nowait", "password": "x"})
    with server.client() as other:
        other.execute_command(
            "ACL", "SETUSER", "nowait", "on", ">x", "~*", "&*", "+@all", "-blpop"
        )
    after = client.after(idle(client), 30, asking(client))
    put(server)
    # The call was made: what it handed out must not be lost for that.
    assert [job.jid for job in after.run().jobs] == ["a"]
    assert isinstance(after.refusal, NotPermitted)
    assert not after.announced
    assert client.queues()[0].running == 1


def test_a_refused_call_gives_its_connection_back(valkey: Make) -> None:
    client = valkey(options={"max_connections": 1}, patience=0.05)
    keys = idle(client)
    first = [Put("a", "other", "k", "{}")]
    again = [Put("b", "other", "k", "{}", depends=["nosuch"])]
    # Few enough for one call.
    after = client.after(keys, 0.01, Client.put_many.build(client, "", first))
    assert after.run().duplicates == {}
    after = client.after(keys, 0.01, Client.put_many.build(client, "", again))
    with pytest.raises(JobNotFound):
        after.run()
    assert client.length("other") == 1


def test_an_interrupted_wait_can_be_taken_back(valkey: Make, server: Server) -> None:
    client = valkey()
    after = client.after(idle(client), 30, asking(client))
    with interruptible() as interrupt:
        with when_blocked(server, lambda _: interrupt()), pytest.raises(Interruption):
            after.run()
        assert after.run_instead(nothing(client)) == ([], [], None, (), 0.0, ())
    put(server)
    # Even if it arrived only now, the first request could not be carried out any more.
    with server.client(decode_responses=True) as other:
        connection = other.connection_pool.get_connection()
        first = client.script.request(after._command, after._request_id)
        connection.send_packed_command((first,))
        assert connection.read_response() == [[], [], []]
        other.connection_pool.release(connection)
    assert client.queue("q").counts().waiting == 1


def test_what_was_handed_out_to_an_interrupted_wait_is_not_lost(
    valkey: Make, server: Server, cutter: Cutter
) -> None:
    client = valkey(cutter.path)
    keys = idle(client)
    cutter.hold("BLPOP")
    after = client.after(keys, 30, asking(client))

    def interrupt_when_held(_: object) -> None:
        put(server)
        poll(lambda: cutter.held, what="the replies are on their way")
        interrupt()

    with interruptible() as interrupt:
        with when_blocked(server, interrupt_when_held), pytest.raises(Interruption):
            after.run()
        (job,) = after.run_instead(nothing(client)).jobs
    assert (job.jid, job.token) == ("a", client.meta()["token"])
    # Asked again, it says the same; and the client is as good as new.
    assert after.run_instead(nothing(client)).jobs == [job]
    done = [Settlement("a", job.token, "complete", ())]
    assert client.settle("w", done, 0, ()).refused == []
    assert len(client.pool) == 1


def test_an_interruption_before_anything_was_sent(valkey: Make) -> None:
    client = valkey()
    after = client.after(idle(client), 30, asking(client))
    assert after.run_instead(nothing(client)).jobs == []
    again = client.after(["nothing"], 0.01, asking(client))
    again.run()
    with pytest.raises(RuntimeError, match="only once"):
        again.run()


def test_a_forgotten_wait_gives_its_connection_back(
    valkey: Make, server: Server
) -> None:
    client = valkey(options={"max_connections": 1}, patience=0.1)
    after = client.after(idle(client), 30, asking(client))
    with (
        interruptible() as interrupt,
        when_blocked(server, lambda _: interrupt()),
        pytest.raises(Interruption),
    ):
        after.run()
    del after
    assert client.queues() == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "1"])
def test_a_wait_has_an_end(client: Client, seconds: Any) -> None:
    with pytest.raises(BadArgument):
        client.after(["nothing"], seconds, asking(client))


def test_the_request_must_be_one_that_can_be_repeated(client: Client) -> None:
    many = [Settlement(str(n), "1", "complete", ()) for n in range(300)]
    too_much = Client.settle.build(client, "w", many, 1, ["q"])
    with pytest.raises(BadArgument, match="one call"):
        client.after(["nothing"], 1, too_much)
    with pytest.raises(BadArgument, match="only reads"):
        client.after(["nothing"], 1, Client.length.build(client, "q"))
    with pytest.raises(BadArgument, match="keys"):
        client.after([], 1, asking(client))


# The same for asyncio.


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that no event tells."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def waiting(client: AsyncClient) -> Any:
    """Ask in vain, and return the wait and its task."""
    settled = await client.run(asking(client))
    after = client.after(settled.wait_keys, 30, asking(client))
    return after, asyncio.create_task(after.run())


def test_asyncio_gets_the_job_with_the_wake_up(each_server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        after, task = await waiting(client)
        with each_server.client() as other:
            await until(lambda: blocked(other))
        put(each_server)
        assert [job.jid for job in (await task).jobs] == ["a"]
        assert after.announced
        assert (await client.after(["nothing"], 0.01, asking(client)).run()).jobs == []

    in_loop(each_server, body)


def test_asyncio_notices_a_server_that_says_nothing_after_the_wait(
    server: Server,
) -> None:
    async def run() -> None:
        user = server.async_client(socket_timeout=0.05)
        async with AsyncClient(user, patience=0.05) as client:
            keys = (await client.run(asking(client))).wait_keys
            os.kill(server.pid, signal.SIGSTOP)
            try:
                after = client.after(keys, 0.01, asking(client))
                with pytest.raises(ConnectionLost):
                    await after.run()
                after.abandon()
                assert await client.blpop(["nothing"], 0.01) is None
            finally:
                os.kill(server.pid, signal.SIGCONT)
            assert await client.length("q") == 0
        await user.aclose()

    asyncio.run(run())


def test_asyncio_asks_again_for_a_lost_reply(server: Server, cutter: Cutter) -> None:
    async def body(client: AsyncClient) -> None:
        settled = await client.run(asking(client))
        cutter.cut("BLPOP", head=40)
        put(server)
        after = client.after(settled.wait_keys, 30, asking(client))
        (job,) = (await after.run()).jobs
        assert (cutter.cuts, job.token) == (1, (await client.meta())["token"])

    in_loop(server, body, cutter.path)


def test_asyncio_takes_a_cancelled_wait_back(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        after, task = await waiting(client)
        with server.client() as other:
            await until(lambda: blocked(other))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await after.run_instead(nothing(client))).jobs == []
        put(server)
        assert (await client.queue("q").counts()).waiting == 1

    in_loop(server, body)


def test_asyncio_loses_nothing_that_was_handed_out(
    server: Server, cutter: Cutter
) -> None:
    async def body(client: AsyncClient) -> None:
        cutter.hold("BLPOP")
        after, task = await waiting(client)
        put(server)
        await until(lambda: cutter.held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (job,) = (await after.run_instead(nothing(client))).jobs
        assert job.token == (await client.meta())["token"]
        assert len(client.pool) == 1

    in_loop(server, body, cutter.path)
