"""Connections as the user's pool would make its own, but apart from it.

They have its address, password and certificates. Some things must be so and not otherwise:

- redis-py must not send a command twice by itself: we do that (`retry.py`).
- Replies come back as text under RESP2, whatever the pool says. Bytes that are not UTF-8
  survive as surrogates.
- There is always a time limit, so that a silent server is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

#: Seconds for the answer to a call, unless the user's client has a socket_timeout.
ANSWER_SECONDS = 5.0
#: Lanes of one client, unless the user's pool has less connections.
MOST_LANES = 100

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
)


def connecting(
    client: redis.Redis | redis.asyncio.Redis, timeout: float | None = None
) -> Callable[[], Any]:
    """Return what makes connections like those of a redis-py client, but ours.

    `timeout`, if given, is how many seconds connecting and each answer may take.
    """
    retry = Retry if isinstance(client, redis.Redis) else AsyncRetry
    pool: Any = client.connection_pool
    options = {
        option: value
        for option, value in pool.connection_kwargs.items()
        if option not in _DROPPED
    }
    options |= {
        "retry": retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": True,
        "encoding": "utf-8",
        "encoding_errors": "surrogateescape",
        "socket_timeout": timeout or options.get("socket_timeout") or ANSWER_SECONDS,
    }
    connect = partial(pool.connection_class, **options)
    return connect if timeout is None else partial(_impatient, connect, timeout)


def _impatient(connect: Callable[[], Any], timeout: float) -> Any:
    connection = connect()
    # Not all kinds of connections take it as an argument.
    connection.socket_connect_timeout = timeout
    return connection


def limit(client: Any) -> int:
    """Return how many lanes a client with this redis-py client may have."""
    most: int = client.connection_pool.max_connections
    return min(MOST_LANES, most)


def address(client: Any) -> str:
    """Return where a redis-py client connects to, for messages."""
    options = client.connection_pool.connection_kwargs
    service = getattr(client.connection_pool, "service_name", None)
    if service:
        return f"sentinel service {service}"
    if "path" in options:
        return f"unix://{options['path']}?db={options.get('db') or 0}"
    host, port = options.get("host") or "localhost", options.get("port") or 6379
    return f"{host}:{port}/{options.get('db') or 0}"
