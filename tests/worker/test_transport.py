"""The connection of a worker's parent: repeats, interrupted waits, events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from django_qless.core import Client, ConnectionLost, JobNotFound, Settled, Settlement
from django_qless.core.request import Command, single
from django_qless.worker.transport import Transport, transport_of
from tests.client.cutter import Cutter

if TYPE_CHECKING:
    from tests.real_servers import Server


@pytest.fixture
def producer(server: Server) -> Iterator[Client]:
    """A blocking client of the same namespace, as other processes use it."""
    with server.client() as other, Client(other) as client:
        yield client


@pytest.fixture
def cutter(server: Server) -> Iterator[Cutter]:
    """A proxy in front of the server."""
    with Cutter(server.socket) as cutter:
        yield cutter


def run(
    path: str,
    body: Callable[[Transport], Awaitable[Any]],
    *,
    retry_timeout: float = 10,
) -> Any:
    """Run a coroutine function with a transport to a socket's server; return its result."""

    async def main() -> Any:
        made = transport_of(
            redis.asyncio.Redis(unix_socket_path=path),
            "ql:",
            retry_timeout=retry_timeout,
        )
        try:
            return await asyncio.wait_for(body(made), 60)
        finally:
            await made.close()

    return asyncio.run(main())


def settle(client: Client, count: int = 1, *done: Settlement) -> Command[Settled]:
    """Return a worker's call: report these outcomes, reserve up to `count` jobs."""
    return single(Client.settle.build(client, "w", done, count, ["q"], wait=30))


def jids(settled: Settled) -> list[str]:
    return [job.jid for job in settled.jobs]


def test_call_loads_the_core_and_returns_the_result(
    server: Server, producer: Client
) -> None:
    async def body(transport: Transport) -> Settled:
        await transport.call(Client.put.build(producer, "", "q", "a", "k", "{}"))
        return await transport.call(settle(producer))

    assert jids(run(server.socket, body)) == ["a"]


def test_call_raises_refusals_and_goes_on(server: Server, producer: Client) -> None:
    async def body(transport: Transport) -> Settled:
        with pytest.raises(JobNotFound):
            await transport.call(Client.timeout.build(producer, "missing"))
        return await transport.call(settle(producer))

    assert jids(run(server.socket, body)) == []


def test_lost_reply_is_asked_for_again_and_done_once(
    cutter: Cutter, producer: Client
) -> None:
    producer.put("", "q", "a", "k", "{}")
    producer.put("", "q", "b", "k", "{}")

    async def body(transport: Transport) -> Settled:
        cutter.cut("settle", head=3)
        return await transport.call(settle(producer))

    assert jids(run(cutter.path, body)) == ["a"]
    assert cutter.cuts == 1
    assert producer.get("b").state == "waiting"


def test_call_to_a_lost_server_ends_with_its_retry_timeout(tmp_path: Any) -> None:
    async def body(transport: Transport) -> None:
        with pytest.raises(ConnectionLost):
            await transport.call(Command("queues", (), "read"))

    run(str(tmp_path / "none.sock"), body, retry_timeout=0.1)


def test_call_after_a_cancelled_one_gets_its_own_reply(
    cutter: Cutter, producer: Client
) -> None:
    async def body(transport: Transport) -> Settled:
        cutter.hold("get")
        first = asyncio.ensure_future(
            transport.call(Client.get.build(producer, "missing"))
        )
        while not cutter.held:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        producer.put("", "q", "a", "k", "{}")
        return await transport.call(settle(producer))

    assert jids(run(cutter.path, body)) == ["a"]


async def wait_for_job(
    transport: Transport, client: Client, interrupted: asyncio.Event | None = None
) -> Settled:
    """Ask for a job, wait for one if there is none."""
    settled = await transport.call(settle(client))
    if settled.jobs:
        return settled
    assert settled.wait_keys
    return await transport.wait_then(
        settled.wait_keys,
        30,
        settle(client),
        interrupted=interrupted or asyncio.Event(),
        replacement=lambda: settle(client, 0),
        failed=lambda error: 0.0,
    )


async def until_blocked(server: redis.Redis) -> None:
    """Wait until a client blocks."""
    while not server.info("clients")["blocked_clients"]:
        await asyncio.sleep(0.01)


def test_wait_ends_with_the_job_that_ended_it(server: Server, producer: Client) -> None:
    async def body(transport: Transport) -> Settled:
        waiting = asyncio.ensure_future(wait_for_job(transport, producer))
        with server.client() as other:
            await until_blocked(other)
        producer.put("", "q", "a", "k", "{}")
        return await waiting

    assert jids(run(server.socket, body)) == ["a"]


def test_interrupted_wait_returns_the_replacement(
    server: Server, producer: Client
) -> None:
    async def body(transport: Transport) -> tuple[Settled, Settled]:
        interrupted = asyncio.Event()
        waiting = asyncio.ensure_future(wait_for_job(transport, producer, interrupted))
        with server.client() as other:
            await until_blocked(other)
        interrupted.set()
        replaced = await waiting
        producer.put("", "q", "a", "k", "{}")
        return replaced, await transport.call(settle(producer))

    replaced, later = run(server.socket, body)
    assert jids(replaced) == []
    assert jids(later) == ["a"]


def test_job_handed_out_at_the_moment_of_an_interruption_is_returned(
    server: Server, producer: Client
) -> None:
    async def body(transport: Transport) -> list[str]:
        found: list[str] = []
        for number in range(40):
            interrupted = asyncio.Event()
            waiting = asyncio.ensure_future(
                wait_for_job(transport, producer, interrupted)
            )
            with server.client() as other:
                await until_blocked(other)
            producer.put("", "q", f"{number}", "k", "{}")
            interrupted.set()
            settled = await waiting
            if not settled.jobs:
                settled = await transport.call(settle(producer))
            found += jids(settled)
            done = [Settlement(job.jid, job.token, "complete") for job in settled.jobs]
            await transport.call(settle(producer, 0, *done))
        return found

    assert run(server.socket, body) == [str(number) for number in range(40)]


def test_connection_that_is_lost_during_a_wait_is_made_again(
    server: Server, producer: Client
) -> None:
    async def body(transport: Transport) -> Settled:
        waiting = asyncio.ensure_future(wait_for_job(transport, producer))
        with server.client() as other:
            await until_blocked(other)
            other.client_kill_filter(_type="normal", skipme=True)
        producer.put("", "q", "a", "k", "{}")
        settled = await waiting
        return settled if settled.jobs else await transport.call(settle(producer))

    assert jids(run(server.socket, body)) == ["a"]


def test_events_go_on_after_a_lost_connection(server: Server, producer: Client) -> None:
    async def body(transport: Transport) -> list[str]:
        events = transport.events(["log"])
        names: list[str] = []

        async def next_name() -> str:
            event = await asyncio.wait_for(anext(events), 20)
            return event.event

        first = asyncio.ensure_future(next_name())
        with server.client() as other:
            while not other.pubsub_numsub("ql:log")[0][1]:
                await asyncio.sleep(0.01)
            producer.put("", "q", "a", "k", "{}")
            names.append(await first)
            other.client_kill_filter(_type="pubsub")
        names.append(await next_name())
        producer.cancel("a")
        names.append(await next_name())
        await events.aclose()
        return names

    assert run(server.socket, body) == ["put", "reconnected", "canceled"]


def test_server_that_hangs_delays_no_call_to_another(
    server: Server, cutter: Cutter, producer: Client
) -> None:
    async def body(hanging: Transport) -> float:
        cutter.hold("settle")
        stuck = asyncio.ensure_future(hanging.call(settle(producer)))
        while not cutter.held:
            await asyncio.sleep(0.01)
        other = transport_of(
            redis.asyncio.Redis(unix_socket_path=server.socket),
            "ql:",
            retry_timeout=5,
        )
        began = time.monotonic()
        await other.call(Client.get.build(producer, "missing"))
        await other.close()
        still_stuck = not stuck.done()
        stuck.cancel()
        await asyncio.wait([stuck])
        assert still_stuck
        return time.monotonic() - began

    run(cutter.path, body)
