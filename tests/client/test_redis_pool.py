"""Connections are made as those of the user's pool, whatever its kind and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio.sentinel
from redis._parsers import _RESP2Parser as PythonParser
from redis.asyncio.retry import Retry as AsyncRetry
from redis.retry import Retry
from redis.sentinel import Sentinel

from django_qless.core import Client, LockLost, Put
from django_qless.core.cluster import cluster_client
from django_qless.core.redis_pool import (
    Limits,
    _copied_options,
    address,
    copy_pool,
    follows_primary,
    is_of_sentinel,
)
from django_qless.core.sentinel import AsyncSentinels, Sentinels, sentinels_like
from tests.client.jobs import Make

if TYPE_CHECKING:
    from tests.real_servers import Server


OPTIONS: list[dict[str, Any]] = [
    {},
    {"decode_responses": True},
    {"protocol": 2},
    {"protocol": 3},
    {"protocol": 3, "decode_responses": True},
    {"encoding": "latin-1"},
    {"encoding": "utf-16", "decode_responses": True},
    {"health_check_interval": 1, "socket_timeout": 3, "socket_connect_timeout": 3},
    {"single_connection_client": True},
    {"client_name": "somebody"},
    {"db": 5},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_all_options_of_a_user_work(valkey: Make, options: dict[str, Any]) -> None:
    client = valkey(options=options)
    text = '{"to":"ä🎉"}'
    client.put_many("", [Put("a", "quäue", "k", text, context='{"x":"ü"}')])
    (job,) = client.settle("w", [], 5, ["qu*"]).jobs
    assert (job.queue, job.data, job.context_object) == ("quäue", text, {"x": "ü"})
    assert client.get("a").data == text
    assert client.get("nobody") is None
    assert client.bzpopmin(["nothing"], 0.01) is None


def test_a_database_of_its_own(valkey: Make) -> None:
    valkey(options={"db": 5}).put("", "q", "a", "k", "{}")
    assert valkey().queues() == []
    assert len(valkey(options={"db": 5}).queues()) == 1


def test_pools_of_any_kind_work(server: Server) -> None:
    pools = [
        redis.ConnectionPool.from_url(server.url),
        redis.BlockingConnectionPool.from_url(server.url, max_connections=1, timeout=1),
    ]
    for pool in pools:
        user = redis.Redis(connection_pool=pool)
        with Client(user) as client:
            client.put("", "q", "a", "k", "{}")
            # Our connections are not taken from the user's pool.
            assert user.ping()
            assert client.length("q") == 1
        user.close()
        pool.disconnect()


def test_the_tcp_port_works_as_well() -> None:
    from tests.real_servers import Server

    with Server("valkey", tcp=True) as server:
        user = redis.Redis.from_url(server.tcp_url)
        with Client(user) as client:
            assert client.put("", "q", "a", "k", "{}") == "a"
            assert repr(client) == f"<Client 127.0.0.1:{server.port}/0 ql:>"
        user.close()


def test_bytes_that_are_not_text_survive(valkey: Make, server: Server) -> None:
    """Old clients may have put anything."""
    client = valkey()
    client.put("", "q", "a", "k", '"x"')
    with server.client() as other:
        other.hset("ql:j:a", "data", b'"\xff\xfe"')
    (job,) = client.settle("w", [], 1, ["q"]).jobs
    assert job.data.encode("utf-8", "surrogateescape") == b'"\xff\xfe"'
    assert client.length("q") == 1


def test_without_hiredis_redis_py_reads(server: Server) -> None:
    pool = redis.ConnectionPool.from_url(server.url, parser_class=PythonParser)
    client = Client(redis.Redis(connection_pool=pool))
    assert client.put("", "q", "a", "k", '"ä"') == "a"
    assert [job.data for job in client.settle("w", [], 1, ["q"]).jobs] == ['"ä"']
    with pytest.raises(LockLost):
        client.heartbeat("a", "999")
    assert client.await_ended(["a"], 0.01) == {}
    assert client.bzpopmin(["nothing"], 0.01) is None
    client.close()


SEEDS = [("a", 7000), ("b", 7001)]


@pytest.mark.parametrize(
    ("user", "place"),
    [
        (redis.Redis(), "localhost:6379/0"),
        (redis.Redis(host="h", port=7, db=3), "h:7/3"),
        (redis.Redis(unix_socket_path="/s"), "unix:///s?db=0"),
        (redis.Redis(unix_socket_path="/s", db=4), "unix:///s?db=4"),
        (redis.Redis.from_url("redis://h:7/3"), "h:7/3"),
        (redis.Redis(connection_pool=redis.ConnectionPool()), "localhost:6379/0"),
        (redis.asyncio.Redis(host="h"), "h:6379/0"),
        (cluster_client(SEEDS, "{ql}:"), "cluster a:7000,b:7001 slot 5698"),
        (Sentinel([("a", 1)]).master_for("main"), "sentinel service main"),
    ],
)
def test_where_a_client_connects_to(user: Any, place: str) -> None:
    assert address(user) == place


@pytest.mark.parametrize(
    ("most", "expected"), [(1, 1), (99, 99), (100, 100), (101, 100), (1 << 31, 100)]
)
def test_how_many_connections_there_may_be(most: int, expected: int) -> None:
    for family in (redis, redis.asyncio):
        limits = Limits(family.Redis(max_connections=most))
        assert limits.most == expected
        # Then the client's own patience says how long to wait.
        assert (limits.waits, limits.patience(7)) == (False, 7)


@pytest.mark.parametrize("seconds", [None, 0.5])
def test_the_pool_of_a_user_may_say_how_long_to_wait(seconds: float | None) -> None:
    for family in (redis, redis.asyncio):
        pool = family.BlockingConnectionPool(max_connections=3, timeout=seconds)
        limits = Limits(family.Redis(connection_pool=pool))
        assert (limits.most, limits.patience(7)) == (3, seconds)


@pytest.mark.parametrize(
    ("given", "timeout", "answer", "connect"),
    [
        ({}, None, 5.0, None),
        ({"socket_timeout": 3}, None, 3, None),
        ({"socket_timeout": 3, "socket_connect_timeout": 4}, None, 3, 4),
        ({"socket_timeout": 3, "socket_connect_timeout": 4}, 0.5, 0.5, 0.5),
        ({}, 0.5, 0.5, 0.5),
        ({"path": "/s"}, 0.5, 0.5, None),
    ],
)
def test_how_long_connecting_and_an_answer_may_take(
    given: dict[str, Any], timeout: float | None, answer: float, connect: float | None
) -> None:
    for family in (redis, redis.asyncio):
        kind = family.Connection
        if "path" in given:
            kind = family.UnixDomainSocketConnection
        pool = family.ConnectionPool(connection_class=kind, **given)
        options = copy_pool(
            family.Redis(connection_pool=pool), timeout
        ).connection_kwargs
        assert options["socket_timeout"] == answer
        assert options.get("socket_connect_timeout") == connect


def test_what_a_copy_takes_over_and_what_is_its_own() -> None:
    given = {"client_name": "me", "username": "u", "password": "p", "db": 3}
    theirs = {
        "retry_on_timeout": True,
        "health_check_interval": 9,
        "encoding": "latin-1",
    }
    for family, retry in ((redis, Retry), (redis.asyncio, AsyncRetry)):
        pool = family.ConnectionPool(**given, **theirs, max_connections=2, protocol=3)
        copy = copy_pool(family.Redis(connection_pool=pool))
        assert type(copy) is family.ConnectionPool
        assert copy is not pool
        options = copy.connection_kwargs
        assert {name: options[name] for name in given} == given
        assert not {"retry_on_timeout", "health_check_interval"} & set(options)
        assert (options["protocol"], options["decode_responses"]) == (2, True)
        assert (options["encoding"], options["encoding_errors"]) == (
            *("utf-8", "surrogateescape"),
        )
        # None is sent twice, and our own pool counts them.
        assert type(options["retry"]) is retry
        assert options["retry"]._retries == 0
        assert copy.max_connections > 1_000_000
        assert pool.connection_kwargs["protocol"] == 3


def test_a_copy_for_sentinels() -> None:
    stock: tuple[Any, ...] = (
        (redis, Sentinel, Sentinels),
        (redis.asyncio, redis.asyncio.sentinel.Sentinel, AsyncSentinels),
    )
    for family, theirs, ours in stock:
        manager = theirs(
            [("a", 1), ("b", 2)],
            min_other_sentinels=2,
            sentinel_kwargs={"socket_timeout": 3, "password": "s"},
        )
        manager._force_master_ip = "10.0.0.9"
        user = manager.slave_for("main", check_connection=True, password="p")
        copy = copy_pool(user, 0.5)
        assert type(copy) is family.sentinel.SentinelConnectionPool
        assert (copy.service_name, copy.is_master, copy.check_connection) == (
            *("main", False, True),
        )
        assert copy_pool(manager.master_for("main")).is_master
        assert copy.connection_kwargs["password"] == "p"
        asked = copy.sentinel_manager
        assert type(asked) is ours
        assert (asked.min_other_sentinels, asked._force_master_ip) == (2, "10.0.0.9")
        for place, sentinel in enumerate(asked.sentinels):
            assert isinstance(sentinel, family.Redis)
            assert sentinel not in manager.sentinels
            options = sentinel.connection_pool.connection_kwargs
            assert (options["host"], options["port"]) == [("a", 1), ("b", 2)][place]
            assert (options["socket_timeout"], options["password"]) == (3, "s")
            assert options["decode_responses"] is True
        assert is_of_sentinel(user)
        assert follows_primary(user)
        # What is a copy already is copied all the same; another kind is left as it is.
        assert type(sentinels_like(asked, _copied_options)) is ours

        class Own(theirs):  # type: ignore[misc, valid-type]
            """Finds the primary in its own way."""

        own = Own([("a", 1)])
        assert sentinels_like(own, _copied_options) is own


def test_a_sentinel_is_given_up_soon_unless_it_is_said_otherwise() -> None:
    pool = copy_pool(
        Sentinel([("a", 1)], sentinel_kwargs={"socket_timeout": None}).master_for(
            "main"
        )
    )
    [sentinel] = pool.sentinel_manager.sentinels
    assert sentinel.connection_pool.connection_kwargs["socket_timeout"] == 1.0


def test_who_asks_others_where_the_server_is() -> None:
    alone, of_cluster = redis.Redis(), cluster_client(SEEDS, "{ql}:")
    assert (is_of_sentinel(alone), follows_primary(alone)) == (False, False)
    assert (is_of_sentinel(of_cluster), follows_primary(of_cluster)) == (False, True)
