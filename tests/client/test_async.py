"""The asyncio client has the same commands, and its own connections in each event loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio

from django_qless.core import (
    AsyncClient,
    BadArgument,
    Client,
    ConnectionLost,
    LockLost,
    PoolExhausted,
    Put,
    Settlement,
    new_jid,
)
from django_qless.core.commands import Commands
from django_qless.core.request import command
from tests.client.cutter import Cutter
from tests.client.jobs import in_loop

if TYPE_CHECKING:
    from tests.real_servers import Server

Body = Callable[[AsyncClient], Coroutine[Any, Any, None]]


def test_a_jobs_way(each_server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        assert await client.put("", "q", "a", "k", "{}", priority=1) == "a"
        assert await client.put_many("", [Put("b", "q", "k", "{}")]) == ([], {})
        taken = await client.settle("w", [], 1, ["q"])
        assert [job.jid for job in taken.jobs] == ["a"]
        done = [
            Settlement(taken.jobs[0].jid, taken.jobs[0].token, "complete", ("[1]", 60))
        ]
        taken = await client.settle("w", done, 1, ["q"])
        assert [job.jid for job in taken.jobs] == ["b"]
        assert await client.result("a") == [1]
        beat = await client.beat("w", "", [("b", taken.jobs[0].token), ("c", "1")])
        assert beat.lost == ["c"]
        job = await client.get("b")
        assert job is not None
        assert job.state == "running"
        await job.log("hello")
        await job.set_progress(0.5, "half")
        job = await job.refresh()
        assert job is not None
        assert job.progress == (0.5, "half")
        assert await job.fail("group", "message") == "b"
        job = await job.refresh()
        assert job is not None
        assert job.state == "failed"
        with pytest.raises(LockLost):
            await job.heartbeat()
        assert await client.get("nobody") is None

    in_loop(each_server, body)


def test_the_objects_of_an_asyncio_client(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        queue = client.queue("q")
        await queue.put("a", "k", "{}", tags=["t"])
        (job,) = await queue.pop("w")
        assert (await queue.counts()).running == 1
        await client.track("a")
        assert [job.jid for job in (await client.tracked()).jobs] == ["a"]
        assert (await client.tagged("t")).jids == ["a"]
        assert [worker.name for worker in await client.workers()] == ["w"]
        await job.fail("group", "message")
        assert await client.failed() == {"group": 1}
        await client.config_set("heartbeat", 5)
        assert await client.config_get("heartbeat") == "5"
        await client.recur("q", "tick", "k", "{}", 60)
        tick = await client.recur_get("tick")
        assert tick is not None
        await tick.update(interval=5)
        refreshed = await tick.refresh()
        assert refreshed is not None
        assert refreshed.interval == 5
        assert (
            await client.schedule_set("cron", "q", "k", "{}", cron="* * * * *") == "new"
        )
        listing = await client.schedule_list()
        assert [schedule.id for schedule in listing.schedules] == ["cron", "tick"]
        assert await client.schedule_pause(["cron", "tick"]) == 2
        assert await client.schedule_remove("cron") == 1

    in_loop(server, body)


def test_many_tasks_share_a_limited_number_of_connections(server: Server) -> None:
    async def run() -> None:
        pool = redis.asyncio.ConnectionPool.from_url(server.url, max_connections=5)
        user = redis.asyncio.Redis(connection_pool=pool)
        async with AsyncClient(user) as client:
            await asyncio.gather(
                *(client.put("", "q", new_jid(), "k", "{}") for _ in range(300))
            )
            assert await client.length("q") == 300
            assert len(client.pool) == 5
        await user.aclose()

    asyncio.run(run())


def test_a_connection_is_waited_for_and_then_refused(server: Server) -> None:
    async def run() -> None:
        user = server.async_client(max_connections=1)
        async with AsyncClient(user, patience=0.05) as client:
            connection = await client.pool.acquire(0.05)
            with pytest.raises(PoolExhausted):
                await client.queues()
            client.pool.release(connection)
            assert await client.queues() == []

    asyncio.run(run())


def test_one_client_serves_one_event_loop_after_the_other(server: Server) -> None:
    client = AsyncClient(server.async_client())

    async def put(jid: str) -> int:
        await client.put("", "q", jid, "k", "{}")
        length = await client.length("q")
        await client.aclose()
        return length

    assert [asyncio.run(put(jid)) for jid in "abc"] == [1, 2, 3]


def test_a_loop_that_was_closed_without_more_ado_leaves_nothing_behind(
    server: Server,
) -> None:
    """As by code that does not use asyncio.run, for each of its calls."""
    client = AsyncClient(server.async_client())
    pools = []

    async def ask() -> None:
        assert await client.queues() == []
        pools.append(weakref.ref(client.pool))

    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(ask())
        loop.close()
    del loop
    gc.collect()
    assert [pool() is None for pool in pools] == [True, True, False]
    asyncio.run(ask())
    gc.collect()
    assert not any(pool() for pool in pools)


def test_a_cancelled_task_never_shifts_replies(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        await client.put("", "q", "a", "k", "{}")
        with server.client() as other:
            other.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.put("", "q", "b", "k", "{}"), 0.05)
            other.execute_command("CLIENT", "UNPAUSE")
        job = await client.get("a")
        assert job is not None
        assert job.jid == "a"
        assert await client.put("", "q", "c", "k", "{}") == "c"
        assert len(client.pool) == 1

    in_loop(server, body)


def test_bzpopmin_outlasts_the_socket_timeout(server: Server) -> None:
    async def run() -> None:
        user = server.async_client(socket_timeout=0.1)
        async with AsyncClient(user) as client:
            assert await client.bzpopmin(["nothing"], 0.4) is None
            waiting = asyncio.create_task(client.bzpopmin(["nothing", "set"], 10))
            await asyncio.sleep(0.2)
            with server.client() as other:
                other.zadd("set", {"member": 0})
            assert await waiting == ("set", "member")
            assert await client.queues() == []
        await user.aclose()

    asyncio.run(run())


def test_a_lost_reply_has_one_effect(server: Server, cutter: Cutter) -> None:
    async def run() -> None:
        user = redis.asyncio.Redis(unix_socket_path=cutter.path)
        async with AsyncClient(user) as client:
            for jid in "abc":
                await client.put("", "q", jid, "k", "{}")
            cutter.cut("settle", times=3)
            (job,) = (await client.settle("w", [], 1, ["q"])).jobs
            assert cutter.cuts == 3
            assert job.token == (await client.meta())["token"]
            assert (await client.queue("q").counts()).running == 1

    asyncio.run(run())


def test_flushes_and_losses_are_survived(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        for jid in "abc":
            await client.put("", "q", jid, "k", "{}")
            with server.client() as other:
                other.function_flush()
                other.script_flush()
                other.client_kill_filter(_type="normal", skipme=True)
        assert await client.length("q") == 3

    in_loop(server, body)


def test_a_server_that_is_gone() -> None:
    async def run() -> None:
        user = redis.asyncio.Redis(unix_socket_path="/nowhere/server.sock")
        async with AsyncClient(user, patience=0.02) as client:
            with pytest.raises(ConnectionLost):
                await client.queues()

    asyncio.run(run())


def test_bad_arguments_raise_at_once(server: Server) -> None:
    async def body(client: AsyncClient) -> None:
        with pytest.raises(BadArgument):
            client.put("", "", "j", "k", "{}")

    in_loop(server, body)


@pytest.mark.parametrize("name", ["get", "put", "bzpopmin", "server_info", "run"])
def test_its_methods_count_as_coroutine_functions(server: Server, name: str) -> None:
    is_async = (inspect if sys.version_info >= (3, 12) else asyncio).iscoroutinefunction
    assert is_async(getattr(AsyncClient(server.async_client()), name))
    assert not is_async(getattr(Client(server.client()), name))


def test_each_client_refuses_the_redis_client_of_the_other(server: Server) -> None:
    with pytest.raises(BadArgument, match=r"Client needs a redis\.Redis"):
        Client(server.async_client())
    with pytest.raises(BadArgument, match=r"AsyncClient needs a redis\.asyncio\.Redis"):
        AsyncClient(server.client())


def test_every_command_says_what_it_does() -> None:
    found = [
        value
        for subject in Commands.__mro__
        for value in vars(subject).values()
        if isinstance(value, command)
    ]
    assert len(found) > 45
    for value in found:
        assert value.__doc__, value.build
        assert inspect.signature(value.build).return_annotation, value.build
