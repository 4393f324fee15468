"""Aliases on Sentinel: what reaches redis-py, and which server is the primary."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis.sentinel
from django.test import override_settings

from django_qless.conf import alias
from django_qless.conf.connection_factory import factory_for
from django_qless.conf.connections import connections
from django_qless.core import NotAuthenticated, NotReached
from tests.jobs_app import jobs
from tests.real_servers import Server, poll
from tests.sentinels import Watched

DJANGO_REDIS = {
    "BACKEND": "django_redis.cache.RedisCache",
    "LOCATION": "redis://main/3",
    "OPTIONS": {
        "CLIENT_CLASS": "django_redis.client.SentinelClient",
        "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
        "SENTINELS": [("a", 1), ("b", 2)],
        "SENTINEL_KWARGS": {"password": "s"},
        "PASSWORD": "p",
    },
}


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    """A primary, its replica, and three sentinels."""
    with Watched(sentinels=3) as watched:
        yield watched


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    connections.forget()


def options_of(client: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the options of the connections to the servers, and to the sentinels."""
    pool = client.connection_pool
    sentinels = pool.sentinel_manager.sentinels
    return pool.connection_kwargs, [
        s.connection_pool.connection_kwargs for s in sentinels
    ]


@pytest.mark.parametrize("kind", ["client", "async_client"])
def test_settings_reach_redis_py(kind: str) -> None:
    given = {
        "SENTINELS": [("a", 1), ["b", 2]],
        "SERVICE_NAME": "main",
        "SENTINEL_OPTIONS": {"username": "u", "password": "s"},
        "OPTIONS": {"password": "p", "ssl": True, "ssl_ca_certs": "/ca.pem"},
        "DB": 3,
    }
    with override_settings(QLESS={"default": given}):
        factory = factory_for(alias())
        client = getattr(factory, kind)()
    servers, sentinels = options_of(client)
    assert client.connection_pool.service_name == "main"
    assert "SSL" in client.connection_pool.connection_class.__name__
    assert (servers["password"], servers["db"], servers["ssl_ca_certs"]) == (
        *("p", 3, "/ca.pem"),
    )
    assert servers["socket_timeout"] == 2.0
    assert [(s["host"], s["port"]) for s in sentinels] == [("a", 1), ("b", 2)]
    assert {(s["username"], s["password"]) for s in sentinels} == {("u", "s")}
    assert {s["socket_timeout"] for s in sentinels} == {1.0}
    assert factory.database == (("main", ("a", 1), ("b", 2)), 3)


@pytest.mark.parametrize("kind", ["client", "async_client"])
def test_a_cache_of_django_redis_on_sentinel(kind: str) -> None:
    given = {"CACHE": "default", "DB": 5, "OPTIONS": {"socket_timeout": 4}}
    with override_settings(CACHES={"default": DJANGO_REDIS}, QLESS={"default": given}):
        client = getattr(factory_for(alias()), kind)()
    servers, sentinels = options_of(client)
    assert client.connection_pool.service_name == "main"
    assert (servers["password"], servers["db"], servers["socket_timeout"]) == (
        "p",
        5,
        4,
    )
    assert [(s["host"], s["password"]) for s in sentinels] == [("a", "s"), ("b", "s")]


def test_a_cache_whose_servers_are_reached_by_tls() -> None:
    more = {"CONNECTION_POOL_KWARGS": {"ssl": True}}
    options = {**DJANGO_REDIS["OPTIONS"], **more}
    caches = {"default": {**DJANGO_REDIS, "OPTIONS": options}}
    with override_settings(CACHES=caches, QLESS={"default": {"CACHE": "default"}}):
        client = factory_for(alias()).client()
    kind = client.connection_pool.connection_class
    assert kind is redis.sentinel.SentinelManagedSSLConnection
    servers, _ = options_of(client)
    assert (servers["password"], servers["db"]) == ("p", 3)


def test_a_job_through_the_cache(watched: Watched) -> None:
    options = {**DJANGO_REDIS["OPTIONS"], "SENTINELS": watched.addresses}
    del options["SENTINEL_KWARGS"], options["PASSWORD"]
    caches = {"default": {**DJANGO_REDIS, "OPTIONS": options}}
    with override_settings(CACHES=caches, QLESS={"default": {"CACHE": "default"}}):
        jobs.add.delay(1).cancel()
        with watched.primary.client(db=3) as probe:
            assert probe.exists("ql:meta")


def test_the_latest_configuration_of_a_majority_counts(watched: Watched) -> None:
    """A sentinel that was cut off names a former primary: the others know better."""
    right, wrong = watched.primary, watched.replicas[0]
    configurations = [
        f"sentinel monitor x 127.0.0.1 {server.port} 2\nsentinel config-epoch x {epoch}\n"
        for server, epoch in ((wrong, 1), (right, 2), (right, 2))
    ]
    with ExitStack() as stack:
        sentinels = [
            stack.enter_context(Server("valkey", "--sentinel", tcp=True, config=text))
            for text in configurations
        ]
        addresses = [("127.0.0.1", sentinel.port) for sentinel in sentinels]
        given = {"SENTINELS": addresses, "SERVICE_NAME": "x"}
        with override_settings(QLESS={"default": given}):
            pool = connections["default"]._source()
            assert pool.get_master_address() == ("127.0.0.1", right.port)


def test_sentinels_that_are_away_are_asked_last(watched: Watched) -> None:
    away = ("127.0.0.1", 1)
    given = {**watched.settings, "SENTINELS": [away, *watched.addresses]}
    with override_settings(QLESS={"default": given}):
        pool = connections["default"]._source()
        assert pool.get_master_address() == ("127.0.0.1", watched.primary.port)
        last = pool.sentinel_manager.sentinels[-1]
        assert last.connection_pool.connection_kwargs["port"] == 1
        jobs.add.delay(1).cancel()


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"SERVICE_NAME": "other"}, NotReached, "primary of 'other' .* No such master"),
        (
            {"SENTINELS": [("127.0.0.1", 1)]},
            NotReached,
            "primary of 'main' .*127.0.0.1:1",
        ),
        (
            {"SENTINEL_OPTIONS": {"username": "nobody", "password": "x"}},
            NotAuthenticated,
            "Sentinel 127.0.0.1",
        ),
    ],
)
def test_what_is_wrong_is_named(
    watched: Watched, changes: dict[str, Any], kind: type, message: str
) -> None:
    given = {**watched.settings, "PATIENCE": 0.05, **changes}
    with (
        override_settings(QLESS={"default": given}),
        pytest.raises(kind, match=message),
    ):
        jobs.add.delay(1)


def test_each_event_loop_has_its_own_connections_to_sentinels(watched: Watched) -> None:
    """They are closed with the loop, and nothing stays connected to a sentinel."""

    async def enqueue() -> None:
        handle = await jobs.add.aenqueue(1)
        await handle.acancel()

    with (
        override_settings(QLESS={"default": watched.settings}),
        watched.sentinels[0].client() as probe,
    ):
        before = {each["id"] for each in probe.client_list()}
        for _ in range(3):
            asyncio.run(enqueue())
        gc.collect()

        def new() -> list[dict[str, str]]:
            # Sentinels name themselves, and talk when they like.
            return [
                each
                for each in probe.client_list()
                if each["id"] not in before and not each["name"].startswith("sentinel")
            ]

        poll(lambda: not new(), what="all have been closed")
