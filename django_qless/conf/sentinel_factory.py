"""Connections to the primary that Sentinels name, for `SENTINELS` and for such a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.sentinel import SentinelManagedSSLConnection

#: Seconds for the answer of a server or a sentinel, unless OPTIONS or SENTINEL_OPTIONS say
#: else. A former primary that hangs must be noticed before a worker is missed.
SERVER_SECONDS, SENTINEL_SECONDS = 2.0, 1.0

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SentinelFactory:
    """Arguments for connections to one service, blocking and asyncio alike."""

    sentinels: tuple[Address, ...]
    service_name: str
    options: dict[str, Any]
    """Of the connections to servers."""
    sentinel_options: dict[str, Any]

    def client(self) -> redis.Redis:
        """Return a redis-py client with a new pool; nothing is connected yet."""
        client: redis.Redis = self._client(redis.sentinel)
        return client

    def async_client(self) -> redis.asyncio.Redis:
        """Return an asyncio client with a new pool; nothing is connected yet."""
        client: redis.asyncio.Redis = self._client(redis.asyncio.sentinel)
        return client

    def _client(self, family: Any) -> Any:
        manager = family.Sentinel(self.sentinels, sentinel_kwargs=self.sentinel_options)
        return manager.master_for(self.service_name, **self.options)

    @property
    def database(self) -> tuple[Any, ...]:
        """The service and its database, for comparison."""
        place = (self.service_name, *sorted(self.sentinels))
        return (place, int(self.options.get("db") or 0))


def factory_from_sentinels(
    sentinels: Sequence[Sequence[Any]],
    service_name: str,
    database: int | None,
    options: Mapping[str, Any],
    sentinel_options: Mapping[str, Any],
) -> SentinelFactory:
    """Return the factory of the service of this name."""
    timeouts = {"socket_timeout": SENTINEL_SECONDS}
    mine = {"socket_timeout": SERVER_SECONDS, **options}
    if database is not None:
        mine["db"] = database
    return SentinelFactory(
        tuple((str(host), int(port)) for host, port in sentinels),
        service_name,
        mine,
        {**timeouts, **sentinel_options},
    )


def factory_from_pool(
    pool: Any, kept: Mapping[str, Any], more: Mapping[str, Any]
) -> SentinelFactory:
    """Return the factory of the service of a redis-py pool.

    `kept` are the options of its connections, `more` go over them.
    """
    clients = [each.connection_pool for each in pool.sentinel_manager.sentinels]
    places = [
        (each.connection_kwargs["host"], each.connection_kwargs["port"])
        for each in clients
    ]
    own = {
        option: value
        for option, value in pool.sentinel_manager.sentinel_kwargs.items()
        if value is not None
    }
    options = {option: value for option, value in kept.items() if value is not None}
    if issubclass(pool.connection_class, SentinelManagedSSLConnection):
        options["ssl"] = True
    options.pop("connection_pool", None)
    return factory_from_sentinels(
        places, pool.service_name, None, {**options, **more}, own
    )
