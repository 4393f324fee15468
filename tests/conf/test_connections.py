"""Clients by alias: which server, when they connect, forks, threads, event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from typing import Any
from weakref import WeakSet

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_qless.conf import connection_factory
from django_qless.conf.connection_checks import redis_options
from django_qless.conf.connections import connections
from django_qless.conf.validation import validate_alias
from django_qless.core import ConnectionLost, NotAuthenticated
from django_qless.core.redis_pool import Limits, copy_pool
from django_qless.servers import embedded
from tests.jobs_app import jobs
from tests.real_servers import Server

REDIS_CACHE = "django.core.cache.backends.redis.RedisCache"
DJANGO_REDIS = "django_redis.cache.RedisCache"


@pytest.fixture(autouse=True)
def _forget():
    yield
    connections.forget()


def test_a_client_is_made_once_and_connects_late() -> None:
    with override_settings(QLESS={"default": {"LOCATION": "redis://nowhere:1"}}):
        first = connections["default"]
        assert connections["default"] is first
        assert connections.all() == [first]
    with override_settings(QLESS={"default": {"LOCATION": "redis://elsewhere:1"}}):
        assert connections["default"] is not first


def test_settings_reach_the_client(qless) -> None:
    aliases = {
        "default": {
            "LOCATION": "rediss://u:p@host:7/3",
            "PREFIX": "shop:",
            "OPTIONS": {"socket_timeout": 7, "max_connections": 3},
        }
    }
    with override_settings(QLESS=aliases):
        client = connections["default"]
        assert list(connections) == ["default"]
        assert "default" in connections
        assert "other" not in connections
        with pytest.raises(ImproperlyConfigured, match="no alias 'other'; there are"):
            connections["other"]
    pool = client.redis.connection_pool
    known = pool.connection_kwargs
    assert client.prefix == "shop:"
    assert (known["host"], known["port"], known["db"]) == ("host", 7, 3)
    assert (known["username"], known["password"]) == ("u", "p")
    assert (known["socket_timeout"], pool.max_connections) == (7, 3)
    assert pool.connection_class.__name__ == "SSLConnection"


@pytest.mark.parametrize("name", sorted(redis_options()))
def test_options_that_are_accepted_reach_the_connections(name: str) -> None:
    value: Any = {"max_connections": 7, "socket_timeout": 3}.get(name, 1)
    alias = {"LOCATION": "rediss://h:1", "OPTIONS": {name: value}}
    if problems := [*validate_alias("default", alias)]:
        assert all(name in each.text and each.hint for each in problems)
        return
    with override_settings(QLESS={"default": alias}):
        client = connections["default"].redis
        assert Limits(client).most == (7 if name == "max_connections" else 100)
        if name != "max_connections":
            assert copy_pool(client).connection_kwargs[name] == value


@pytest.mark.parametrize("backend", [REDIS_CACHE, DJANGO_REDIS])
@pytest.mark.parametrize("database", [None, 3])
def test_the_server_of_a_cache(server, backend, database) -> None:
    options = {"CONNECTION_POOL_KWARGS": {"max_connections": 7}, "SOCKET_TIMEOUT": 3}
    if backend == REDIS_CACHE:
        options = {"max_connections": 7, "socket_timeout": 3}
    caches = {
        "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
        "queue": {
            "BACKEND": backend,
            "LOCATION": [f"{server.url}?db=2", "redis://a.replica:1"],
            "OPTIONS": options,
        },
    }
    alias = {"CACHE": "queue", "OPTIONS": {"socket_connect_timeout": 4}}
    if database is not None:
        alias["DB"] = database
    with override_settings(CACHES=caches, QLESS={"default": alias}):
        handle = jobs.add.delay(1)
        found = connections["default"].redis.connection_pool

        async def put():
            return await jobs.add.aenqueue(2)

        asyncio.run(put())
        waiting = connections["default"].queue_counts("default").waiting
    kept = server.client(db=2 if database is None else 3)
    assert kept.exists(f"ql:j:{handle.jid}")
    assert waiting == 2
    assert found.max_connections == 7
    assert found.connection_kwargs["socket_timeout"] == 3
    assert found.connection_kwargs["socket_connect_timeout"] == 4


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_short_lived_event_loops_leave_nothing_open(qless) -> None:
    loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    async def put() -> None:
        loops.add(asyncio.get_running_loop())
        await jobs.add.aenqueue(1)

    asyncio.run(put())
    # What earlier tests have left to the collector is closed now, or meanwhile.
    gc.collect()
    before = open_descriptors()
    for _ in range(300):
        asyncio.run(put())
        assert open_descriptors() <= before
    gc.collect()
    # A thread of an earlier test may look at the last one at this moment.
    assert len(loops) <= 1
    assert qless.length("default") == 301


def test_loops_that_are_only_closed_leave_nothing_open(qless) -> None:
    async def put() -> None:
        await jobs.add.aenqueue(1)

    asyncio.run(put())
    before = open_descriptors()
    for _ in range(100):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(put())
        loop.close()
    asyncio.run(put())
    gc.collect()
    assert open_descriptors() <= before


def test_options_of_another_cache_do_not_come_along(server) -> None:
    common = {"BACKEND": DJANGO_REDIS, "LOCATION": f"{server.url}?db=2"}
    first = {**common, "OPTIONS": {"SOCKET_TIMEOUT": 1}}
    second = {**common, "OPTIONS": {"SOCKET_TIMEOUT": 2}}
    caches = {"default": first, "queue": second}
    with override_settings(CACHES=caches):
        from django.core.cache import caches as made

        made["default"].client.get_client()
        assert (
            connection_factory.factory_from_cache("queue", None).options[
                "socket_timeout"
            ]
            == 2
        )


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        (
            {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
            "not a cache in",
        ),
        (
            {
                "BACKEND": DJANGO_REDIS,
                "LOCATION": ["redis://a:1", "redis://b:1"],
                "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
            },
            "uses ShardClient, which has no single server",
        ),
        (
            {
                "BACKEND": DJANGO_REDIS,
                "LOCATION": "redis://a:1",
                "OPTIONS": {"CLIENT_CLASS": "django_redis.client.HerdClient"},
            },
            "uses HerdClient, which has no single server",
        ),
        (
            {
                "BACKEND": DJANGO_REDIS,
                "LOCATION": "redis://main/0",
                "OPTIONS": {
                    "CLIENT_CLASS": "django_redis.client.SentinelClient",
                    "SENTINELS": [("a", 1)],
                },
            },
            "uses SentinelClient without django_redis.pool.SentinelConnectionFactory",
        ),
        ({"BACKEND": "no.such.Cache"}, "cannot be used"),
    ],
)
def test_caches_that_cannot_keep_a_queue(cache, message) -> None:
    with (
        override_settings(
            CACHES={"default": cache}, QLESS={"default": {"CACHE": "default"}}
        ),
        pytest.raises(ImproperlyConfigured, match=message),
    ):
        jobs.add.delay(1)


def test_nothing_at_all_is_embedded_in_development_only(tmp_path) -> None:
    # As outside of tests, where it would be on the server of this process.
    nothing = {"default": {"TEST": False}}
    with (
        override_settings(DEBUG=False, BASE_DIR=tmp_path, QLESS=nothing),
        pytest.raises(ImproperlyConfigured, match=r"DEBUG is off\. Set QLESS = "),
    ):
        jobs.add.delay(1)
    with override_settings(DEBUG=True, BASE_DIR=tmp_path, QLESS=nothing):
        client = connections["default"]
        path = client.redis.connection_pool.connection_kwargs["path"]
        assert path == f"{tmp_path}/.qless (embedded)"
        assert not (tmp_path / ".qless").exists()
    with (
        override_settings(DEBUG=True, QLESS=nothing),
        pytest.raises(ImproperlyConfigured, match="no setting BASE_DIR"),
    ):
        jobs.add.delay(1)


def test_embedded_starts_with_the_first_call(tmp_path) -> None:
    folder = tmp_path / "data"
    aliases = {"default": {"EMBEDDED": str(folder)}}
    with override_settings(QLESS=aliases):
        assert "embedded" in repr(connections["default"])
        assert not folder.exists()
        try:
            handle = jobs.add.delay(1)
            assert embedded.status(folder).running

            async def look():
                return await handle.arefresh()

            assert asyncio.run(look()).state == "waiting"
            # It is started again, with its data, when it was stopped.
            embedded.stop(folder)
            assert handle.refresh().state == "waiting"
        finally:
            connections.forget()
            embedded.stop(folder)


def test_no_server_is_told(tmp_path) -> None:
    alias = {"LOCATION": f"unix://{tmp_path}/none.sock", "PATIENCE": 0.01}
    with override_settings(QLESS={"default": alias}):
        with pytest.raises(ConnectionLost, match=r"Check that the server is running"):
            jobs.add.delay(1)
        with pytest.raises(ConnectionLost, match=r"Check that the server is running"):
            asyncio.run(jobs.add.aenqueue(1))


def test_a_wrong_password_is_told() -> None:
    with Server() as server:
        server.client().config_set("requirepass", "secret")
        for location in (server.url, server.url.replace("://", "://:wrong@")):
            with (
                override_settings(QLESS={"default": {"LOCATION": location}}),
                pytest.raises(NotAuthenticated, match="password"),
            ):
                jobs.add.delay(1)
        right = server.url.replace("://", "://:secret@")
        with override_settings(QLESS={"default": {"LOCATION": right}}):
            assert jobs.add.delay(1).refresh().state == "waiting"


def test_a_forked_child_has_its_own_connections(qless) -> None:
    jobs.add.delay(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            jid = jobs.add.delay(2).jid
            os.write(write, jid.encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    mine = jobs.add.delay(3)
    with os.fdopen(read) as pipe:
        theirs = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert mine.jid != theirs
    assert qless.queue_counts("default").waiting == 3
    assert qless.get(theirs).data == '{"v":1,"args":[2]}'


def test_threads_share_a_client(qless) -> None:
    clients = []

    def put() -> None:
        clients.append(connections["default"])
        for i in range(50):
            jobs.add.delay(i)

    connections.forget()
    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(client) for client in clients}) == 1
    assert qless.queue_counts("default").waiting == 400


def test_event_loops_one_after_the_other(qless) -> None:
    async def put():
        handle = await jobs.add.aenqueue(1)
        await connections.aclose()
        return handle

    assert len({asyncio.run(put()).jid for _ in range(3)}) == 3
    assert connections.aclient() is connections.aclient("default")
