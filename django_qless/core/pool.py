"""The connections of a client, made by a pool of redis-py and kept between requests.

The pool is a copy of that of the user's client: it has the same kind of connections,
address, credentials, certificates and limit. Some settings are always ours:

- redis-py must not send a command twice by itself, or others between: we repeat requests
  (`retry.py`), and notice a lost server by them.
- Replies come back as text under RESP2, whatever the user's pool says. Bytes that are not
  UTF-8 survive as surrogates.
- There is always a time limit, so that a silent server is noticed.

This module knows which connections are free. redis-py's pools would look at each before
each request, which costs a quarter of it, and they take back one whose opening was
interrupted.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from .connection import AsyncConnection, Connection
from .exceptions import PoolExhausted
from .request import Awaiting, Blocking, Steps, stepwise

C = TypeVar("C", Connection, AsyncConnection)

#: Seconds for the answer to a call, unless the user's client has a socket_timeout.
ANSWER_SECONDS = 5.0
#: Connections of one client, unless the user's pool may have fewer.
MOST_CONNECTIONS = 100

# How the queues of free connections tell that they are empty.
EMPTY = (Empty, asyncio.QueueEmpty)

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
    "connection_pool",
)


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
        """Return the error after waiting so long in vain."""
        return PoolExhausted(
            f"All {self.most} connections were in use for {seconds:g} s"
        )


def copy_pool(client: Any, timeout: float | None = None) -> Any:
    """Return our copy of a redis-py client's pool; nothing is connected yet.

    `timeout`, if given, is how many seconds connecting and each answer may take.
    """
    pool = client.connection_pool
    blocking = isinstance(client, redis.Redis)
    options = {
        option: value
        for option, value in pool.connection_kwargs.items()
        if option not in _DROPPED
    }
    options |= {
        "connection_class": pool.connection_class,
        # BasePool counts them.
        "max_connections": 1 << 31,
        "retry": Retry(NoBackoff(), 0) if blocking else AsyncRetry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": True,
        "encoding": "utf-8",
        "encoding_errors": "surrogateescape",
        "socket_timeout": timeout or options.get("socket_timeout") or ANSWER_SECONDS,
    }
    if timeout is not None and "path" not in options:
        options["socket_connect_timeout"] = timeout
    family: Any = redis if blocking else redis.asyncio
    if not isinstance(pool, family.sentinel.SentinelConnectionPool):
        # A user's kind of pool may have its own way to make a connection.
        plain = family.ConnectionPool
        kind = type(pool) if type(pool).__init__ is plain.__init__ else plain
        return kind(**options)
    return family.sentinel.SentinelConnectionPool(
        pool.service_name,
        pool.sentinel_manager,
        is_master=pool.is_master,
        check_connection=pool.check_connection,
        **options,
    )


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


class BasePool(Generic[C]):
    """Connections kept from one request to the next, up to a limit."""

    def __init__(self, source: Callable[[], Any], limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self.reset()

    def reset(self) -> None:
        """Begin without connections."""
        self._idle = self._new_queue()
        self._lock = threading.Lock()
        # A connection that was lost to an interruption does not count.
        self._made: WeakSet[C] = WeakSet()
        self._redis_pool: Any = None

    def __len__(self) -> int:
        return len(self._made)

    def idle(self) -> C | None:
        """Return a connection that is not in use, if there is one."""
        try:
            connection: C = self._idle.get_nowait()
        except EMPTY:
            return None
        return connection

    @stepwise
    def acquire(self, seconds: float) -> Steps[C]:
        """Return a free connection; wait up to `seconds` if all are in use."""
        connection: C | None = self.idle()
        if connection is not None:
            return connection
        with self._lock:
            if len(self._made) < self._limits.most:
                self._redis_pool = self._redis_pool or self._source()
                connection = self._wrap(self._redis_pool.make_connection())
                self._made.add(connection)
                return connection
        patience = self._limits.patience(seconds)
        try:
            waited: C = yield self._next_idle(patience)
        except (Empty, asyncio.TimeoutError):
            raise self._limits.exhausted(patience) from None
        return waited

    def release(self, connection: C) -> None:
        """Give a connection back."""
        self._idle.put_nowait(connection)

    def releaser(self) -> Callable[[C], None]:
        """Return a function that gives a connection back to the pool as it is now.

        In a process forked meanwhile it does nothing to the new connections.
        """
        release: Callable[[C], None] = self._idle.put_nowait
        return release

    @stepwise
    def close(self) -> Steps[None]:
        """Close the connections that are not in use."""
        for _ in range(self._idle.qsize()):
            try:
                connection = self._idle.get_nowait()
            except EMPTY:
                return
            yield connection.hang_up()
            self.release(connection)

    def _new_queue(self) -> Any:
        raise NotImplementedError

    def _wrap(self, raw: Any) -> C:
        raise NotImplementedError

    def _next_idle(self, seconds: float | None) -> Any:
        raise NotImplementedError


class Pool(BasePool[Connection], Blocking):
    """The connections of a client, for any number of threads, new after a fork."""

    def __init__(self, source: Callable[[], Any], limits: Limits) -> None:
        super().__init__(source, limits)
        _all_pools.add(self)

    def _new_queue(self) -> SimpleQueue[Connection]:
        return SimpleQueue()

    def _wrap(self, raw: Any) -> Connection:
        return Connection(raw)

    def _next_idle(self, seconds: float | None) -> Connection:
        connection: Connection = self._idle.get(timeout=seconds)
        return connection


_all_pools: WeakSet[Pool] = WeakSet()


def _reset_all() -> None:
    # In a forked process the connections belong to the parent.
    for pool in _all_pools:
        pool.reset()


os.register_at_fork(after_in_child=_reset_all)


class AsyncPool(BasePool[AsyncConnection], Awaiting):
    """The connections of a client in one event loop."""

    def _new_queue(self) -> asyncio.Queue[AsyncConnection]:
        return asyncio.Queue()

    def _wrap(self, raw: Any) -> AsyncConnection:
        return AsyncConnection(raw)

    async def _next_idle(self, seconds: float | None) -> AsyncConnection:
        connection: AsyncConnection = await asyncio.wait_for(self._idle.get(), seconds)
        return connection


class LoopPools:
    """The pools of an asyncio client, one for each event loop, closed with it.

    A loop may live as long as one request: `asyncio.run(job.aenqueue())`, or a view under
    WSGI. Its connections end with it.
    """

    def __init__(self, make: Callable[[], AsyncPool]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._of: dict[asyncio.AbstractEventLoop, tuple[AsyncPool, object]] = {}

    def of_running_loop(self) -> AsyncPool:
        """Return the pool of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._of.get(loop)
        if found is None:
            pool = self._make()
            closing = self._close_at_end(loop, pool)
            # Up to its yield, where nothing is awaited: from then on the loop knows it.
            with suppress(StopIteration):
                closing.__anext__().__await__().__next__()
            with self._lock:
                self._forget_closed_loops()
                self._of[loop] = found = (pool, closing)
        return found[0]

    async def _close_at_end(
        self, loop: asyncio.AbstractEventLoop, pool: AsyncPool
    ) -> AsyncIterator[None]:
        # A loop has no other event for its end: `asyncio.run` finishes all generators.
        try:
            yield
        finally:
            with self._lock:
                self._of.pop(loop, None)
            await pool.close()

    def _forget_closed_loops(self) -> None:
        # Their generators were not finished; Python closes the sockets.
        for loop in [loop for loop in self._of if loop.is_closed()]:
            del self._of[loop]
