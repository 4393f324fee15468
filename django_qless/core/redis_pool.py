"""The pool of the user's redis-py client, copied for our own connections.

The copy has the same kind of connections, address, credentials, certificates and limit.
Some settings are always ours:

- redis-py must not send a command twice by itself, or others between: we repeat requests
  (`retry.py`), and notice a lost server by them.
- Replies come back as text under RESP2, whatever the user's pool says. Bytes that are not
  UTF-8 survive as surrogates.
- There is always a time limit, so that a silent server is noticed.
"""

from __future__ import annotations

from typing import Any

import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from .cluster import slot_map_of
from .exceptions import PoolExhausted
from .sentinel import sentinels_like

#: Seconds for the answer to a call, unless the user's client has a socket_timeout.
ANSWER_SECONDS = 5.0
#: Connections of one client, unless the user's pool may have fewer.
MOST_CONNECTIONS = 100

# What a pool hands its connections that ours must have differently, or not at all.
_DROPPED = (
    "retry_on_error",
    "retry_on_timeout",
    "health_check_interval",
    "legacy_responses",
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler",
    "orig_host_address",
    "orig_socket_timeout",
    "orig_socket_connect_timeout",
    "himport_registry",
    "cache",
    "cache_config",
    "cache_factory",
    "connection_pool",
)
_OURS = {
    "protocol": 2,
    "decode_responses": True,
    "encoding": "utf-8",
    "encoding_errors": "surrogateescape",
}

#: The options of redis-py that the user's client may have and that change nothing.
WITHOUT_EFFECT = frozenset({*_DROPPED, *_OURS, "retry"})


class Limits:
    """Limits of our pool, taken from the pool of the user's client."""

    def __init__(self, client: Any) -> None:
        pool = client.connection_pool
        blocking = (redis.BlockingConnectionPool, redis.asyncio.BlockingConnectionPool)
        #: How many connections there may be.
        self.most = min(MOST_CONNECTIONS, pool.max_connections)
        #: Whether the pool itself says how long to wait for one: `seconds`, or for ever.
        self.waits = isinstance(pool, blocking)
        self.seconds: float | None = pool.timeout if self.waits else None

    def patience(self, seconds: float) -> float | None:
        """Return how long to wait for a connection; `seconds` is the client's patience."""
        return self.seconds if self.waits else seconds

    def exhausted(self, seconds: float | None) -> PoolExhausted:
        """Return the error of a wait that took so long."""
        return PoolExhausted(
            f"All {self.most} connections were in use for {seconds:g} s"
        )


def copy_pool(client: Any, timeout: float | None = None) -> Any:
    """Return our copy of a redis-py client's pool; nothing is connected yet.

    `timeout`, if given, is how many seconds connecting and each answer may take.
    """
    pool = client.connection_pool
    options = _copied_options(client)
    # BasePool counts them.
    options["max_connections"] = 1 << 31
    options["socket_timeout"] = (
        timeout or options.get("socket_timeout") or ANSWER_SECONDS
    )
    if timeout is not None and "path" not in options:
        options["socket_connect_timeout"] = timeout
    family: Any = redis if isinstance(client, redis.Redis) else redis.asyncio
    if not isinstance(pool, family.sentinel.SentinelConnectionPool):
        # A user's kind of pool may have its own way to make a connection.
        plain = family.ConnectionPool
        kind = type(pool) if type(pool).__init__ is plain.__init__ else plain
        return kind(**options)
    return family.sentinel.SentinelConnectionPool(
        pool.service_name,
        # Connections to sentinels belong to an event loop, too.
        sentinels_like(pool.sentinel_manager, _copied_options),
        is_master=pool.is_master,
        check_connection=pool.check_connection,
        **options,
    )


def _copied_options(client: Any) -> dict[str, Any]:
    """Return the arguments for a pool like that of a client, for replies as text."""
    pool = client.connection_pool
    blocking = isinstance(client, redis.Redis)
    options = {
        option: value
        for option, value in pool.connection_kwargs.items()
        if option not in _DROPPED
    }
    return options | {
        "connection_class": pool.connection_class,
        "retry": Retry(NoBackoff(), 0) if blocking else AsyncRetry(NoBackoff(), 0),
        **_OURS,
    }


def is_of_sentinel(client: Any) -> bool:
    """Return whether a redis-py client asks sentinels where its server is."""
    return hasattr(client.connection_pool, "sentinel_manager")


def follows_primary(client: Any) -> bool:
    """Return whether a redis-py client asks others where its server is."""
    return is_of_sentinel(client) or slot_map_of(client) is not None


def address(client: Any) -> str:
    """Return where a redis-py client connects to, for messages."""
    options = client.connection_pool.connection_kwargs
    if slot_map := slot_map_of(client):
        seeds = ",".join(f"{host}:{port}" for host, port in slot_map.seeds)
        return f"cluster {seeds} slot {slot_map.slot}"
    service = getattr(client.connection_pool, "service_name", None)
    if service:
        return f"sentinel service {service}"
    if "path" in options:
        return f"unix://{options['path']}?db={options.get('db') or 0}"
    host, port = options.get("host") or "localhost", options.get("port") or 6379
    return f"{host}:{port}/{options.get('db') or 0}"
