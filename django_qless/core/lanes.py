"""Lanes: a connection and a request id, borrowed together for one call.

One client id must have only one request under way, and so must one connection. A client
has as many lanes as it ever made calls at the same time, and they keep their connection:
taking one costs a tenth of what redis-py's pool needs to hand out a connection.

The connections are made as the user's pool would make its own, with its address, password
and certificates, but apart from it, because some things must be so and not otherwise:

- redis-py must not send a command twice by itself: we do that (`retry.py`).
- Replies come back as text under RESP2, whatever the pool says. Bytes that are not UTF-8
  survive as surrogates.
- There is always a time limit, so that a silent server is noticed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from .exceptions import PoolExhausted

#: Seconds for the answer to a call, unless the user's client has a socket_timeout.
ANSWER_SECONDS = 5.0
#: Seconds that the answer to a blocking command may come too late.
LATE_SECONDS = 5.0
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
    client: redis.Redis | redis.asyncio.Redis,
) -> Callable[[], Any]:
    """Return what makes connections like those of a redis-py client, but ours."""
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
        "socket_timeout": options.get("socket_timeout") or ANSWER_SECONDS,
    }
    return partial(pool.connection_class, **options)


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


class _Name:
    """A client id and the number of its last request."""

    __slots__ = ("_client_id", "_sequence")

    def __init__(self) -> None:
        self._client_id = secrets.token_urlsafe(8)
        self._sequence = 0

    def next_request(self) -> str:
        """Return the id of a new request."""
        self._sequence += 1
        return f"{self._client_id}:{self._sequence}"


class Lane(_Name):
    """One request at a time on a connection of its own."""

    __slots__ = ("_connected", "_connection")

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self._connection = connection
        self._connected = False

    def exchange(self, request: bytes, blocking: float | None = None) -> Any:
        """Send a request and return its reply, which may take `blocking` seconds more.

        Any interruption closes the connection: the reply to one request must never be
        taken for that to the next.
        """
        connection = self._connection
        try:
            if not self._connected:
                connection.connect()
                self._connected = True
            connection.send_packed_command((request,))
            if blocking is not None and not connection.can_read(
                timeout=blocking + LATE_SECONDS
            ):
                raise RedisTimeoutError(f"no answer {LATE_SECONDS} s after the block")
            return connection.read_response()
        except ResponseError:
            raise
        except BaseException:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connected = False
        self._connection.disconnect()


class Lanes:
    """The lanes of one client, for any number of threads, fresh after a fork."""

    def __init__(self, connect: Callable[[], Any], most: int, seconds: float) -> None:
        self._connect = connect
        self._most = most
        self._seconds = seconds
        self.separate()
        _all_lanes.add(self)

    def separate(self) -> None:
        """Forget all lanes: in a forked process they belong to the parent."""
        self._idle: SimpleQueue[Lane] = SimpleQueue()
        self._lock = threading.Lock()
        self._made = 0

    def take(self) -> Lane:
        """Borrow a lane."""
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._another()

    def give(self, lane: Lane) -> None:
        """Return a lane."""
        self._idle.put(lane)

    def close(self) -> None:
        """Close the connections that are not in use."""
        for _ in range(self._idle.qsize()):
            try:
                lane = self._idle.get_nowait()
            except Empty:
                return
            lane.hang_up()
            self._idle.put(lane)

    def _another(self) -> Lane:
        with self._lock:
            if self._made < self._most:
                lane = Lane(self._connect())
                self._made += 1
                return lane
        try:
            return self._idle.get(timeout=self._seconds)
        except Empty:
            raise PoolExhausted(
                f"All {self._most} connections were in use for {self._seconds:g} s"
            ) from None


_all_lanes: WeakSet[Lanes] = WeakSet()


def _separate_all() -> None:
    for lanes in _all_lanes:
        lanes.separate()


os.register_at_fork(after_in_child=_separate_all)


class AsyncLane(_Name):
    """One request at a time on an asyncio connection of its own."""

    __slots__ = ("_connected", "_connection")

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self._connection = connection
        self._connected = False

    async def exchange(self, request: bytes, blocking: float | None = None) -> Any:
        """Send a request and return its reply, which may take `blocking` seconds more."""
        connection = self._connection
        try:
            if not self._connected:
                await connection.connect()
                self._connected = True
            await connection.send_packed_command((request,))
            if blocking is None:
                return await connection.read_response()
            # redis-py's own limit would return None as if that were the reply.
            limit = blocking + LATE_SECONDS
            read = connection.read_response(timeout=limit + LATE_SECONDS)
            return await asyncio.wait_for(read, limit)
        except ResponseError:
            raise
        except asyncio.TimeoutError as error:
            await self.hang_up()
            raise RedisTimeoutError(
                f"no answer {LATE_SECONDS} s after the block"
            ) from error
        except BaseException:
            await self.hang_up()
            raise

    async def hang_up(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connected = False
        await self._connection.disconnect(nowait=True)


class AsyncLanes:
    """The lanes of one client in one event loop."""

    def __init__(self, connect: Callable[[], Any], most: int, seconds: float) -> None:
        self._connect = connect
        self._most = most
        self._seconds = seconds
        self._idle: asyncio.Queue[AsyncLane] = asyncio.Queue()
        self._made = 0

    async def take(self) -> AsyncLane:
        """Borrow a lane."""
        try:
            return self._idle.get_nowait()
        except asyncio.QueueEmpty:
            pass
        if self._made < self._most:
            lane = AsyncLane(self._connect())
            self._made += 1
            return lane
        try:
            return await asyncio.wait_for(self._idle.get(), self._seconds)
        except asyncio.TimeoutError:
            raise PoolExhausted(
                f"All {self._most} connections were in use for {self._seconds:g} s"
            ) from None

    def give(self, lane: AsyncLane) -> None:
        """Return a lane."""
        self._idle.put_nowait(lane)

    async def close(self) -> None:
        """Close the connections that are not in use."""
        for _ in range(self._idle.qsize()):
            lane = self._idle.get_nowait()
            await lane.hang_up()
            self.give(lane)
