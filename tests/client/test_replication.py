"""Puts that replicas must have: what waits, what is told, what a repeat tells."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from django.test import override_settings
from redis.exceptions import NoPermissionError

from django_qless.conf.connections import connections
from django_qless.core import (
    AsyncClient,
    Client,
    ConnectionLost,
    LockLost,
    NotReplicated,
    Put,
    replication,
)
from django_qless.core.commands.entities import Payload
from django_qless.core.connection import pack_command
from django_qless.core.replication import REPLICATED, Replication
from django_qless.core.request import Steps, drive
from django_qless.enqueue.dispatch import Dispatcher
from django_qless.enqueue.plan import declared_plan
from django_qless.enqueue.request import EnqueueBatch
from tests.jobs_app import jobs
from tests.real_servers import poll
from tests.sentinels import Watched

SOON = Replication(1, 0.05)


@pytest.fixture(scope="module")
def group() -> Iterator[Watched]:
    """A primary, its replica, and a sentinel, for tests that leave them as they are."""
    with Watched() as group:
        yield group


@pytest.fixture
def cut(group: Watched) -> Iterator[Watched]:
    """The same while the replica is not connected."""
    group.cut_replicas()
    yield group
    group.join_replicas()


@pytest.fixture
def client(group: Watched) -> Iterator[Client]:
    with group.primary.client() as probe:
        probe.flushall()
    server = redis.Redis(port=group.primary.port)
    with Client(server, replication=Replication(1, 5)) as client:
        yield client


def test_which_calls_wait(group: Watched, client: Client) -> None:
    workflow = [Put("w1", "q", "k", "{}"), Put("w2", "q", "k", "{}", depends=["w1"])]
    calls: list[tuple[str, Any, int]] = [
        ("put", lambda: client.put("", "q", "a", "k", "{}"), 1),
        ("put.many", lambda: client.put_many("", [Put("b", "q", "k", "{}")]), 1),
        (
            "put.many in two calls",
            lambda: client.put_many(
                "", [Put(f"c{n}", "p", "k", "{}") for n in range(1001)]
            ),
            2,
        ),
        ("requeue", lambda: client.requeue("", "q", "a", "k", "{}"), 1),
        ("workflow.put", lambda: client.put_workflow("", "w", workflow), 1),
        ("push", lambda: client.push("", "e", "k", [Payload("o", '{"v":1}', "1")]), 1),
        ("settle", lambda: client.settle("w", [], 1, ["q"]), 0),
        ("cancel", lambda: client.cancel("b"), 0),
        ("read", lambda: client.get("b"), 0),
    ]
    client.put("", "q", "first", "k", "{}")  # loads the core
    for name, call, waits in calls:
        with group.primary.client() as probe:
            probe.config_resetstat()
            call()
            stats = probe.info("commandstats").get("cmdstat_wait", {"calls": 0})
        assert stats["calls"] == waits, name
    assert "settle" not in REPLICATED


def test_late_replicas_are_told_and_so_it_is_when_it_is_put_again(
    cut: Watched, client: Client
) -> None:
    client.replication = SOON
    with pytest.raises(NotReplicated, match=r"0 of 1 replicas .* 0\.05 s") as caught:
        client.put("", "q", "late", "k", "{}")
    late = caught.value
    assert (late.replicas, late.result, late.handle) == (0, "late", None)
    assert client.get("late") is not None
    # Neither on the same connection nor on another one is it said to be replicated.
    for _ in range(2):
        with pytest.raises(NotReplicated):
            client.put("", "q", "late", "k", "{}", absent=True)
        client.close()
    cut.join_replicas()
    client.replication = Replication(1, 5)
    client.put("", "q", "late", "k", "{}", absent=True)
    assert client.length("q") == 1
    with cut.replicas[0].client() as copy:
        assert copy.exists("ql:j:late")


@pytest.mark.parametrize("again", [{}, {"absent": True}, {"unique": "key"}])
def test_another_connection_is_not_believed_too_early(
    group: Watched, client: Client, again: dict[str, Any]
) -> None:
    """A connection that has written nothing has nothing to wait for."""
    (replica,) = group.replicas
    client.put("", "q", "first", "k", "{}")
    client.replication = SOON
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        with pytest.raises(NotReplicated):
            client.put("", "q", "late", "k", "{}", unique="key")
        client.close()
        with pytest.raises(NotReplicated):
            client.put("", "q", "late", "k", "{}", **again)
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    client.replication = Replication(1, 5)
    client.put("", "q", "late", "k", "{}", **again)
    assert client.length("q") == 2


def test_all_parts_are_sent_though_replicas_are_late(
    cut: Watched, client: Client
) -> None:
    client.replication = SOON
    items = [Put(f"many{n}", "many", "k", "{}") for n in range(1500)]
    with pytest.raises(NotReplicated) as caught:
        client.put_many("", items)
    assert client.length("many") == 1500
    assert caught.value.result.skipped == []


def test_asyncio(cut: Watched, client: Client) -> None:
    async def work() -> None:
        server = redis.asyncio.Redis(port=cut.primary.port)
        async with AsyncClient(server, replication=SOON) as aclient:
            with pytest.raises(NotReplicated):
                await aclient.put("", "q", "a", "k", "{}")
            await asyncio.to_thread(cut.join_replicas)
            aclient.replication = Replication(1, 5)
            assert await aclient.put("", "q", "a", "k", "{}") == "a"
        await server.aclose()

    asyncio.run(work())


def test_a_user_that_may_not_wait(group: Watched, client: Client) -> None:
    with group.primary.client() as probe:
        probe.execute_command(
            *("ACL", "SETUSER", "hasty", "reset", "on", "nopass", "~*", "&*"),
            *("+@all", "-wait"),
        )
    server = redis.Redis(port=group.primary.port, username="hasty", password="x")
    with (
        Client(server, replication=SOON) as hasty,
        pytest.raises(NotReplicated, match="'wait'"),
    ):
        hasty.put("", "q", "hasty", "k", "{}")
    assert client.get("hasty") is not None


def test_a_replica_that_takes_writes_has_none_to_wait_for(group: Watched) -> None:
    (replica,) = group.replicas
    with replica.client() as admin:
        admin.config_set("replica-read-only", "no")
        try:
            server = redis.Redis(port=replica.port)
            with (
                Client(server, "own:", patience=0.05, replication=SOON) as client,
                pytest.raises(ConnectionLost, match="WAIT cannot be used with replica"),
            ):
                client.put("", "q", "a", "k", "{}")
        finally:
            admin.config_set("replica-read-only", "yes")


def test_handles_and_commits(
    cut: Watched, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    given = {**cut.settings, "REPLICAS": 1}
    with override_settings(QLESS={"default": given}):
        with pytest.raises(NotReplicated) as caught:
            jobs.add.delay(1)
        handle = caught.value.handle
        assert (handle.refresh().state, handle.created) == ("waiting", True)
        with pytest.raises(NotReplicated) as caught:
            jobs.add.enqueue_many([jobs.add.args(n) for n in range(3)])
        assert [each.refresh().state for each in caught.value.handles] == [
            "waiting"
        ] * 3
        # On commit it is logged: the others of the transaction must be sent, too.
        plan = declared_plan(jobs.add.job_type)
        batch = EnqueueBatch([plan.request('{"v":1}', pending=True)])
        Dispatcher().send_on_commit(batch)
        assert batch.handles[0].refresh().state == "waiting"
        assert f"not replicated: {batch.handles[0].jid}" in caplog.text
        connections.forget()


@pytest.mark.parametrize("key", ["jid", "unique"])
def test_a_job_that_is_late_is_enqueued_again(
    cut: Watched, client: Client, key: str
) -> None:
    """By its id, or by its unique key, it stays one job."""
    with override_settings(QLESS={"default": {**cut.settings, "REPLICAS": 1}}):
        first = jobs.add.using(unique=True) if key == "unique" else jobs.add
        with pytest.raises(NotReplicated) as caught:
            first.delay(1)
        handle = caught.value.handle
        again = first if key == "unique" else jobs.add.using(jid=handle.jid)
        with pytest.raises(NotReplicated) as caught:
            again.delay(1)
        assert caught.value.handle.jid == handle.jid
        cut.join_replicas()
        poll(lambda: is_safe(again), what="the replica")
        assert connections["default"].queue_counts("default").waiting == 1
        connections.forget()
    with cut.replicas[0].client() as copy:
        assert copy.exists(f"ql:j:{handle.jid}")


def is_safe(job: Any) -> bool:
    try:
        job.delay(1)
    except NotReplicated:
        return False
    return True


def test_a_failover_before_the_replica_had_it() -> None:
    """Putting it again brings the job; tokens of the former primary are refused."""
    with Watched() as group:
        manager = redis.sentinel.Sentinel(group.addresses)
        server = manager.master_for("main")
        with Client(server, patience=30, replication=SOON) as client:
            client.replication = Replication(1, 5)
            client.put("", "q", "held", "k", "{}")
            group.cut_replicas()
            (held,) = client.settle("w", [], 1, ["q"]).jobs
            client.replication = SOON
            with pytest.raises(NotReplicated):
                client.put("", "p", "lost", "k", "{}")
            group.fail_over()
            assert client.get("lost") is None
            (again,) = client.settle("v", [], 1, ["q"]).jobs
            assert (again.jid, again.token != held.token) == ("held", True)
            with pytest.raises(LockLost):
                client.complete("held", held.token, "q", "{}")
            # No replica is left, but the job is there.
            for _ in range(2):
                with pytest.raises(NotReplicated):
                    client.put("", "p", "lost", "k", "{}")
                assert client.length("p") == 1


class Answered:
    """A connection that gets these two replies, and keeps what was sent."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.sent = b""
        self.waited: tuple[float | None, ...] = ()
        self.closed = 0

    def send(self, message: bytes) -> Steps[None]:
        self.sent = message
        yield

    def receive(self, *blocking: float | None) -> Steps[list[Any]]:
        self.waited = blocking
        yield
        return self.replies

    def hang_up(self) -> None:
        self.closed += 1


def exchanged(connection: Any, wanted: Replication = SOON) -> Any:
    """Exchange a call and its WAIT."""
    return drive(replication._exchange(connection, b"call", wanted))


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(5, 5000), (0.05, 50), (0.0015, 1), (0.0001, 1), (0, 1)],
)
def test_the_server_never_waits_for_ever(seconds: float, milliseconds: int) -> None:
    connection = Answered("reply", 3)
    assert exchanged(connection, Replication(2, seconds)) == ("reply", 3, "")
    assert connection.sent == b"call" + pack_command("WAIT", 2, milliseconds)
    assert connection.waited == (None, seconds)


def test_what_the_server_refuses_of_the_call_and_of_the_wait() -> None:
    call, wait = redis.ResponseError("STATE x"), redis.ResponseError("not a primary")
    with pytest.raises(redis.ResponseError, match="STATE x"):
        exchanged(Answered(call, wait))
    forbidden = NoPermissionError("no permissions to run the 'wait' command")
    assert exchanged(Answered("reply", forbidden)) == ("reply", 0, str(forbidden))
    replica = Answered("reply", wait)
    with pytest.raises(redis.ConnectionError, match="not a primary"):
        exchanged(replica)
    assert replica.closed == 1


def late(detail: str, replicas: int) -> NotReplicated:
    """Return the error of a call that too few replicas have confirmed."""
    return NotReplicated(detail, replicas=replicas, result=detail.upper())


def test_several_that_are_late_are_one_error() -> None:
    lates = [late("a", 2), late("b", 1)]
    lates[0].handles, lates[1].handles = ("first",), ("second",)
    error = replication.combined(lates, "result")
    assert (error.detail, error.replicas, error.result) == ("a", 1, "result")
    assert (error.handles, error.handle) == (("first", "second"), "first")


def test_what_goes_on_where_replicas_are_late_tells_it_at_the_end() -> None:
    class Other:
        prefix = "other:"
        _drive = staticmethod(drive)

        def steps(self, request: Any) -> Steps[Any]:
            yield
            if request.startswith("late"):
                raise late(request, 0)
            return request

    client = replication.LateReplicas(Other())
    assert client.run("soon") == "soon"
    client.check()
    assert client.prefix == "other:"
    assert client.run("late 1") == "LATE 1"
    assert [client.run("soon"), client.run("late 2")] == ["soon", "LATE 2"]
    with pytest.raises(NotReplicated) as caught:
        client.check(["first", "second"], "result")
    assert (caught.value.handles, caught.value.handle) == (("first", "second"), "first")
    assert caught.value.result == "result"
