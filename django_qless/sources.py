"""The ways to connect: what each says about the connections to be made.

A Source is arguments for redis-py's connections, blocking and asyncio alike. A new way
(Sentinel, Cluster) is a new function here and its name in `rules.WAYS`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from django.core.cache import InvalidCacheBackendError, caches
from django.core.exceptions import ImproperlyConfigured
from redis.asyncio.connection import ConnectionPool as AsyncConnectionPool
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.connection import (
    UnixDomainSocketConnection as AsyncUnixConnection,
)
from redis.connection import (
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)

from django_qless.conf import Alias
from django_qless.rules import REMEDY
from django_qless.servers import embedded, throwaway

# What a cache's connections have and ours do not: ours are set by the client.
_NOT_OURS = frozenset(
    {
        *("parser_class", "decode_responses", "encoding", "encoding_errors", "retry"),
        *("retry_on_error", "retry_on_timeout", "himport_registry"),
        *("event_dispatcher", "driver_info", "lib_name", "lib_version"),
        *("maint_notifications_config", "maint_notifications_pool_handler"),
        *("orig_host_address", "orig_socket_timeout", "orig_socket_connect_timeout"),
        "oss_cluster_maint_notifications_handler",
    }
)


class EmbeddedConnection(UnixDomainSocketConnection):
    """A connection to the embedded server of a folder, which it starts if need be."""

    def __init__(self, *, directory: Path, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.directory = directory

    def _connect(self) -> Any:
        self.path = embedded.ensure(self.directory)
        return super()._connect()  # type: ignore[no-untyped-call]


class AsyncEmbeddedConnection(AsyncUnixConnection):
    """The same for asyncio."""

    def __init__(self, *, directory: Path, **options: Any) -> None:
        super().__init__(**options)
        self.directory = directory

    async def _connect(self) -> None:
        self.path = await asyncio.to_thread(embedded.ensure, self.directory)
        await super()._connect()  # type: ignore[no-untyped-call]


class ThrowawayConnection(UnixDomainSocketConnection):
    """A connection to the private server of a process of tests, which it starts."""

    def _connect(self) -> Any:
        self.path = throwaway.server().socket
        return super()._connect()  # type: ignore[no-untyped-call]


class AsyncThrowawayConnection(AsyncUnixConnection):
    """The same for asyncio."""

    async def _connect(self) -> None:
        self.path = (await asyncio.to_thread(throwaway.server)).socket
        await super()._connect()  # type: ignore[no-untyped-call]


_ASYNC_CLASSES: dict[type, type] = {
    SSLConnection: AsyncSSLConnection,
    EmbeddedConnection: AsyncEmbeddedConnection,
    ThrowawayConnection: AsyncThrowawayConnection,
    UnixDomainSocketConnection: AsyncUnixConnection,
}


@dataclass(frozen=True, slots=True)
class Source:
    """How to make connections to one server."""

    connection_class: type
    options: dict[str, Any]

    def client(self) -> redis.Redis:
        """Return a redis-py client with a pool of its own; nothing is connected yet."""
        pool = ConnectionPool(connection_class=self.connection_class, **self.options)
        return redis.Redis(connection_pool=pool)

    def async_client(self) -> redis.asyncio.Redis:
        """Return the same for asyncio."""
        kind = next(
            (
                asynchronous
                for blocking, asynchronous in _ASYNC_CLASSES.items()
                if issubclass(self.connection_class, blocking)
            ),
            redis.asyncio.Connection,
        )
        pool = AsyncConnectionPool(connection_class=kind, **self.options)
        return redis.asyncio.Redis(connection_pool=pool)

    @property
    def database(self) -> tuple[Any, ...]:
        """Which database of which server this is, to be compared."""
        options = self.options
        place = options.get("directory") or options.get("path")
        if place is None:
            host = options.get("host") or "localhost"
            host = "localhost" if host in ("127.0.0.1", "::1") else host
            place = (host, options.get("port") or 6379)
        return (place, int(options.get("db") or 0))


def source_of(alias: Alias) -> Source:
    """Return the way to connect that an alias names. Raises ImproperlyConfigured."""
    if alias.throwaway is not None:
        # The path is for messages: the real one is known when the server runs.
        path = "the tests' own server"
        return Source(ThrowawayConnection, {"path": path, "db": alias.throwaway})
    if alias.cache is not None:
        return of_cache(alias.cache, alias.db, **alias.options)
    if alias.location is not None:
        return of_location(alias.location, **alias.options)
    if alias.implied and not settings.DEBUG:
        raise ImproperlyConfigured(
            f"QLESS[{alias.name!r}] names no server. With DEBUG on this means a private "
            f"one for development, but DEBUG is off. {REMEDY}"
        )
    if alias.embedded is None:
        raise ImproperlyConfigured(
            "The server for development keeps its data in BASE_DIR/.qless, and there "
            f"is no setting BASE_DIR. Set it, or name a server: {REMEDY}"
        )
    # The path is for messages: the real one is known when the server runs.
    options = {"directory": alias.embedded, "path": f"{alias.embedded} (embedded)"}
    return Source(EmbeddedConnection, {**options, **alias.options})


def of_location(url: str, **options: Any) -> Source:
    """Return the source that a URL names; options go over what it says."""
    parsed: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    kind = parsed.pop("connection_class", redis.Connection)
    return Source(kind, {**parsed, **options})


def of_cache(name: str, database: int | None, **options: Any) -> Source:
    """Return the source of a cache's server, with a database of its own if given.

    Raises ImproperlyConfigured if the cache has not exactly one Redis server to write
    to.
    """
    try:
        pool = _cache_pool(name)
    except (InvalidCacheBackendError, ImportError) as error:
        raise ImproperlyConfigured(f"CACHE {name!r} cannot be used: {error}") from error
    kept = {
        option: value
        for option, value in pool.connection_kwargs.items()
        if option not in _NOT_OURS
    }
    kept["max_connections"] = pool.max_connections
    if database is not None:
        kept["db"] = database
    return Source(pool.connection_class, {**kept, **options})


def _cache_pool(name: str) -> ConnectionPool:
    cache: Any = caches[name]
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(cache).__mro__}
    if "django.core.cache.backends.redis.RedisCache" in kinds:
        found: ConnectionPool = cache._cache._get_connection_pool(write=True)
        return found
    if "django_redis.cache.RedisCache" in kinds:
        return _django_redis_pool(name, cache.client)
    raise ImproperlyConfigured(
        f"CACHE {name!r} is a {type(cache).__qualname__}, not a cache in Redis. Name one "
        "of django_redis.cache.RedisCache or django.core.cache.backends.redis."
        "RedisCache, or use LOCATION."
    )


def _django_redis_pool(name: str, client: Any) -> ConnectionPool:
    kinds = {kind.__qualname__ for kind in type(client).__mro__}
    if "SentinelClient" in kinds:
        raise ImproperlyConfigured(
            f"CACHE {name!r} uses Sentinel, which is not available yet for queues. "
            "Possible today are LOCATION, CACHE with one server, and EMBEDDED."
        )
    if "DefaultClient" not in kinds or kinds & {"ShardClient", "HerdClient"}:
        raise ImproperlyConfigured(
            f"CACHE {name!r} uses {type(client).__qualname__}, which has no single "
            "server for a queue. Name a cache with DefaultClient, or use LOCATION."
        )
    # A new pool, because django-redis shares its pools by URL alone: the options of
    # another cache would come along.
    factory = client.connection_factory
    server = client._server[0]
    pool: ConnectionPool = factory.get_connection_pool(
        factory.make_connection_params(server)
    )
    return pool
