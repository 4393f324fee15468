"""Connection factories: redis-py's connections for each way to name a server.

A new way is a new function here and a key in `schema.py`; for Sentinel see
`sentinel_factory.py`, for Cluster `cluster_factory.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from django.core.cache import InvalidCacheBackendError, caches
from django.core.exceptions import ImproperlyConfigured
from redis.asyncio.connection import ConnectionPool as AsyncConnectionPool
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.connection import UnixDomainSocketConnection as AsyncUnixConnection
from redis.connection import (
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.sentinel import SentinelConnectionPool

from django_qless.conf import Alias
from django_qless.conf.cluster_factory import ClusterFactory, factory_from_nodes
from django_qless.conf.schema import REMEDY
from django_qless.conf.sentinel_factory import (
    SentinelFactory,
    factory_from_pool,
    factory_from_sentinels,
)
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


class PrivateServerConnection(UnixDomainSocketConnection):
    """A connection to an embedded or throwaway server, which it starts if need be."""

    def __init__(self, *, start: Callable[[], str], **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.start = start

    def _connect(self) -> Any:
        self.path = self.start()
        return super()._connect()  # type: ignore[no-untyped-call]


class AsyncPrivateServerConnection(AsyncUnixConnection):
    """The asyncio counterpart of PrivateServerConnection."""

    def __init__(self, *, start: Callable[[], str], **options: Any) -> None:
        super().__init__(**options)
        self.start = start

    async def _connect(self) -> None:
        self.path = await asyncio.to_thread(self.start)
        await super()._connect()  # type: ignore[no-untyped-call]


_ASYNC_CLASSES: dict[type, type] = {
    SSLConnection: AsyncSSLConnection,
    PrivateServerConnection: AsyncPrivateServerConnection,
    UnixDomainSocketConnection: AsyncUnixConnection,
}


@dataclass(frozen=True, slots=True)
class ConnectionFactory:
    """Arguments for connections to one server, blocking and asyncio alike."""

    connection_class: type
    options: dict[str, Any]

    def client(self) -> redis.Redis:
        """Return a redis-py client with a new pool; nothing is connected yet."""
        pool = ConnectionPool(connection_class=self.connection_class, **self.options)
        return redis.Redis(connection_pool=pool)

    def async_client(self) -> redis.asyncio.Redis:
        """Return an asyncio client with a new pool; nothing is connected yet."""
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
        """The server and its database, for comparison."""
        options = self.options
        place = options.get("path")
        if place is None:
            host = options.get("host") or "localhost"
            host = "localhost" if host in ("127.0.0.1", "::1") else host
            place = (host, options.get("port") or 6379)
        return (place, int(options.get("db") or 0))


#: What makes connections to the server of an alias.
Factory = ConnectionFactory | SentinelFactory | ClusterFactory


def factory_for(alias: Alias) -> Factory:
    """Return the connection factory of an alias. Raises ImproperlyConfigured."""
    if alias.throwaway is not None:
        return _private_server(
            "the tests' own server",
            lambda: throwaway.server().socket,
            db=alias.throwaway,
        )
    if alias.cache is not None:
        return factory_from_cache(alias.cache, alias.db, **alias.options)
    if alias.sentinels:
        return factory_from_sentinels(
            alias.sentinels,
            alias.service_name,
            alias.db,
            alias.options,
            alias.sentinel_options,
        )
    if alias.cluster:
        return factory_from_nodes(alias.cluster, alias.prefix, alias.options)
    if alias.location is not None:
        return factory_from_url(alias.location, **alias.options)
    if alias.implied and not settings.DEBUG:
        raise ImproperlyConfigured(
            f"QLESS[{alias.name!r}] names no server. With DEBUG on this means a private "
            f"one for development, but DEBUG is off. {REMEDY}"
        )
    directory = alias.embedded
    if directory is None:
        raise ImproperlyConfigured(
            "The server for development keeps its data in BASE_DIR/.qless, and there "
            f"is no setting BASE_DIR. Set it, or name a server: {REMEDY}"
        )
    return _private_server(
        f"{directory} (embedded)",
        lambda: embedded.ensure(directory),
        **alias.options,
    )


def _private_server(
    name: str, start: Callable[[], str], **options: Any
) -> ConnectionFactory:
    # The name is for messages: the path is known when the server runs.
    return ConnectionFactory(
        PrivateServerConnection, {"path": name, "start": start, **options}
    )


def factory_from_url(url: str, **options: Any) -> ConnectionFactory:
    """Return the factory that a URL names; options go over what it says."""
    parsed: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    kind = parsed.pop("connection_class", redis.Connection)
    return ConnectionFactory(kind, {**parsed, **options})


def factory_from_cache(name: str, database: int | None, **options: Any) -> Factory:
    """Return the factory of a cache's server, with another database if given.

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
    if isinstance(pool, SentinelConnectionPool):
        return factory_from_pool(pool, kept, options)
    return ConnectionFactory(pool.connection_class, {**kept, **options})


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
    if "SentinelClient" in kinds and not isinstance(pool, SentinelConnectionPool):
        raise ImproperlyConfigured(
            f"CACHE {name!r} uses SentinelClient without django_redis.pool."
            "SentinelConnectionFactory. Name that in DJANGO_REDIS_CONNECTION_FACTORY."
        )
    return pool
