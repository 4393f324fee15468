"""The core finds its way onto a server, and back when it was flushed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from django_qless.core import (
    Client,
    NotAuthenticated,
    NotPermitted,
    ReadOnlyServer,
    ServerBusy,
    ServerFull,
    ServerTooOld,
    Settlement,
    new_jid,
)
from django_qless.core.request import Command
from django_qless.core.script import Library
from tests.client.jobs import Make
from tests.real_servers import Server, poll

BODY = """
local function serve(keys, args, class)
  return {args[1], args[3], class or '', #keys}
end
local Qless = {}
function Qless.register(name)
  redis.register_function({ function_name = name .. '_read', flags = { 'no-writes' },
    callback = function(keys, args) return serve(keys, args, 'read') end })
  redis.register_function(name .. '_write',
    function(keys, args) return serve(keys, args, 'write') end)
  redis.register_function({ function_name = name .. '_drain', flags = { 'allow-oom' },
    callback = function(keys, args) return serve(keys, args, 'drain') end })
end
"""


def forget(server: Server) -> None:
    """Drop all functions from a server."""
    with server.client() as other:
        other.function_flush()


@pytest.fixture
def forgetful(each_server: Server) -> Server:
    """A server without functions."""
    forget(each_server)
    return each_server


@contextlib.contextmanager
def fresh(*arguments: str, kind: str = "valkey") -> Iterator[Server]:
    """Start a server with these arguments."""
    with Server(kind, *arguments) as server:
        yield server


def test_the_library_is_loaded_by_the_first_call(forgetful: Server) -> None:
    with (
        forgetful.client() as other,
        Client(forgetful.client()) as client,
    ):
        client.put("", "q", "a", "k", "{}")
        names = [library[1].decode() for library in other.function_list()]
        assert names == [client.script.library.name]


def test_a_library_loaded_by_another_is_used(forgetful: Server) -> None:
    with forgetful.client() as other, Client(forgetful.client()) as client:
        other.function_load(Library.default().functions())
        other.config_resetstat()
        client.put("", "q", "a", "k", "{}")
        assert "cmdstat_function|load" not in other.info("commandstats")


def test_many_threads_load_at_once(forgetful: Server) -> None:
    begin = threading.Barrier(8)
    failures: list[BaseException] = []

    def put() -> None:
        begin.wait()
        try:
            with Client(forgetful.client()) as client:
                client.put("", "q", new_jid(), "k", "{}")
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with Client(forgetful.client()) as client:
        assert client.length("q") == 8


def test_flushes_between_calls_are_not_noticed(forgetful: Server) -> None:
    with Client(forgetful.client()) as client:
        for number in range(5):
            client.put("", "q", f"job-{number}", "k", "{}")
            forget(forgetful)
            assert client.length("q") == number + 1
            forget(forgetful)
        jobs = client.settle("w", [], 5, ["q"]).jobs
        forget(forgetful)
        client.settle(
            "w", [Settlement(*job[::4][:2], "complete") for job in jobs], 0, []
        )
        assert len(client.completed()) == 5


def test_flushes_under_load_are_not_noticed(forgetful: Server) -> None:
    done = threading.Event()

    def flush() -> None:
        while not done.wait(0.01):
            forget(forgetful)

    thread = threading.Thread(target=flush)
    with Client(forgetful.client()) as client:
        thread.start()
        try:
            for _ in range(200):
                client.put("", "q", new_jid(), "k", "{}")
        finally:
            done.set()
            thread.join()
        assert client.length("q") == 200


def test_two_versions_live_side_by_side(forgetful: Server) -> None:
    with (
        Client(forgetful.client()) as client,
        Client(forgetful.client(), library=Library(BODY)) as other,
    ):
        client.put("", "q", "a", "k", "{}")
        command, request, *rest = other.run(Command("pause", ("q",), "write"))
        assert (command, rest) == ("pause", ["write", 2])
        assert request.endswith(":1")
        assert client.length("q") == 1


@pytest.fixture
def limited(server: Server) -> Iterator[Callable[..., redis.Redis]]:
    """Makes redis-py clients of a user with these permissions."""
    with server.client() as admin:

        def user(*rules: str) -> redis.Redis:
            admin.execute_command("ACL", "SETUSER", "u", "reset", "on", ">p", *rules)
            return server.client(username="u", password="p")

        yield user
        admin.execute_command("ACL", "DELUSER", "u")


def test_a_user_who_may_call_but_not_load(limited: Any, server: Server) -> None:
    redis_client = limited("~*", "&*", "+@all", "-function")
    with server.client() as admin:
        admin.function_flush()
        admin.function_load(Library.default().functions())
    with Client(redis_client) as client:
        assert client.put("", "q", "a", "k", "{}") == "a"


def test_a_user_without_scripts_is_told(limited: Any) -> None:
    with (
        Client(limited("~*", "+@all", "-@scripting"), patience=1) as client,
        pytest.raises(NotPermitted, match=r"\+fcall \+function\|load adds it"),
    ):
        client.queues()
    limited("~*", "&*", "+@all")
    assert client.queues() == [], "without a restart"


def test_a_user_without_the_keys_is_told(limited: Any) -> None:
    with (
        Client(limited("~other:*", "&*", "+@all"), patience=1) as client,
        pytest.raises(NotPermitted, match="~<prefix>\\*"),
    ):
        client.queues()


def test_wrong_passwords_are_told(server: Server) -> None:
    options = {"username": "nobody", "password": "wrong"}
    with (
        Client(server.client(**options)) as client,
        pytest.raises(NotAuthenticated, match="password"),
    ):
        client.queues()


def test_a_missing_password_is_told() -> None:
    with fresh() as server, server.client() as admin:
        admin.config_set("requirepass", "secret")
        with (
            Client(server.client()) as client,
            pytest.raises(NotAuthenticated, match="password"),
        ):
            client.queues()


def test_a_full_server_refuses_puts_and_lets_workers_finish() -> None:
    with fresh() as server, Client(server.client()) as client:
        client.put("", "q", "a", "k", "{}")
        (job,) = client.settle("w", [], 1, ["q"]).jobs
        with server.client() as admin:
            admin.config_set("maxmemory", "1")
        with pytest.raises(ServerFull, match="Raise its maxmemory"):
            client.put("", "q", "b", "k", "{}")
        assert client.get("b") is None
        client.heartbeat(job.jid, job.token)
        client.settle("w", [Settlement(job.jid, job.token, "complete")], 1, ["q"])
        assert client.completed() == ["a"]


def test_full_server_that_lost_its_functions_needs_room_first() -> None:
    with fresh() as server, Client(server.client()) as client:
        client.put("", "q", "a", "k", "{}")
        (job,) = client.settle("w", [], 1, ["q"]).jobs
        with server.client() as admin:
            admin.config_set("maxmemory", "1")
            admin.function_flush()
            done = [Settlement(job.jid, job.token, "complete")]
            with pytest.raises(ServerFull, match="raise maxmemory first"):
                client.settle("w", done, 0, [])
            admin.config_set("maxmemory", "0")
        client.settle("w", done, 0, [])
        assert client.completed() == ["a"]


def test_server_without_functions_is_too_old() -> None:
    renamed = ("--rename-command", "FUNCTION", "", "--rename-command", "FCALL", "")
    with (
        fresh(*renamed) as server,
        Client(server.client()) as client,
        pytest.raises(ServerTooOld, match=r"Redis 7\.0, Valkey 8"),
    ):
        client.put("", "q", "a", "k", "{}")


def test_a_busy_server_is_waited_for(valkey: Make, server: Server) -> None:
    client = valkey()
    client.put("", "q", "a", "k", "{}")
    busy = threading.Thread(target=spin, args=(server,))
    with server.client() as admin:
        admin.config_set("busy-reply-threshold", 1)
        busy.start()
        poll(lambda: is_busy(admin), what="the server is busy")
        timer = threading.Timer(0.05, admin.script_kill)
        timer.start()
        assert client.put("", "q", "b", "k", "{}") == "b"
        timer.join()
        busy.join()
        admin.config_set("busy-reply-threshold", 5000)


def test_a_wait_on_a_server_that_stays_busy_is_refused(
    valkey: Make, server: Server
) -> None:
    client = valkey(patience=0.05)
    client.put("", "q", "a", "k", "{}")
    busy = threading.Thread(target=spin, args=(server,))
    with server.client() as admin:
        admin.config_set("busy-reply-threshold", 1)
        busy.start()
        poll(lambda: is_busy(admin), what="the server is busy")
        try:
            with pytest.raises(ServerBusy):
                client.bzpopmin(["nothing"], 5)
        finally:
            admin.script_kill()
            busy.join()
            admin.config_set("busy-reply-threshold", 5000)


def spin(server: Server) -> None:
    """Run a script that does not end by itself."""
    with server.client() as other, contextlib.suppress(redis.RedisError):
        other.eval("while true do end", 0)


def is_busy(admin: redis.Redis) -> bool:
    """Return whether the server refuses to do anything else."""
    try:
        admin.ping()
    except redis.ResponseError as error:
        return "BUSY" in str(error)
    return False


def test_a_replica_is_waited_for_and_then_named() -> None:
    """(A server that was promoted once draws its tokens otherwise: it is this test's.)"""
    with (
        fresh() as server,
        server.client() as admin,
        Client(server.client(), patience=0.2) as client,
    ):
        client.put("", "q", "a", "k", "{}")
        admin.replicaof("127.0.0.1", "1")
        with pytest.raises(ReadOnlyServer, match="Connect to the primary"):
            client.put("", "q", "b", "k", "{}")
        assert client.length("q") == 1, "reads are served"
        client.patience = 30
        timer = threading.Timer(0.1, admin.replicaof, ("NO", "ONE"))
        timer.start()
        assert client.put("", "q", "b", "k", "{}") == "b"
        timer.join()


def test_a_server_that_comes_back_with_its_data() -> None:
    with (
        fresh("--appendonly", "yes") as server,
        Client(server.client()) as client,
    ):
        client.put("", "q", "a", "k", "{}")
        server.restart()
        assert client.put("", "q", "b", "k", "{}") == "b"
        assert client.length("q") == 2
