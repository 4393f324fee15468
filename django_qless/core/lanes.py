"""Lanes: a connection and a request id, borrowed together for one call.

One client id must have only one request under way, and so must one connection. A client
has as many lanes as it ever made calls at the same time, and they keep their connection:
taking one costs a tenth of what redis-py's pool needs to hand out a connection.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from .exceptions import PoolExhausted
from .lines import Line, line_of
from .retry import FAILURES, note_not_sent

#: Seconds that the answer to a blocking command may come too late.
LATE_SECONDS = 5.0


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

    __slots__ = ("_connection", "_line")

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self._connection = connection
        self._line: Line | None = None

    def exchange(self, request: bytes, blocking: float | None = None) -> Any:
        """Send a request and return its reply, which may take `blocking` seconds more.

        Any interruption closes the connection: the reply to one request must never be
        taken for that to the next.
        """
        try:
            line = self._line or self._open()
            line.send(request)
            if blocking is not None:
                _outlast(line, blocking)
            return line.read()
        except ResponseError:
            raise
        except BaseException:
            self.hang_up()
            raise

    def exchange_two(
        self, wait: bytes, request: bytes, blocking: float
    ) -> tuple[Any, Any]:
        """Send a command that blocks and a request behind it at once; return both replies.

        A reply that is a refusal is returned as its ResponseError: the other one counts
        all the same. Any interruption closes the connection.
        """
        try:
            line = self._line or self._open()
            line.send(wait + request)
            _outlast(line, blocking)
            return _reply_or_refusal(line), _reply_or_refusal(line)
        except BaseException:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Close the connection; the next request opens it again."""
        self._line = None
        self._connection.disconnect()

    def _open(self) -> Line:
        try:
            self._connection.connect()
        except FAILURES as error:
            note_not_sent(error)
            raise
        self._line = line_of(self._connection)
        return self._line


def _outlast(line: Line, blocking: float) -> None:
    if not line.wait(blocking + LATE_SECONDS):
        raise RedisTimeoutError(f"no answer {LATE_SECONDS} s after the block")


def _reply_or_refusal(line: Line) -> Any:
    try:
        return line.read()
    except ResponseError as refusal:
        return refusal


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

    def giver(self) -> Callable[[Lane], None]:
        """Return what returns a lane later; in a process forked meanwhile it does nothing
        to the new lanes."""
        return self._idle.put

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
                await self._open()
            await connection.send_packed_command((request,))
            if blocking is None:
                return await connection.read_response()
            return await self._outlast(blocking)
        except ResponseError:
            raise
        except BaseException:
            await self.hang_up()
            raise

    async def exchange_two(
        self, wait: bytes, request: bytes, blocking: float
    ) -> tuple[Any, Any]:
        """Send a command that blocks and a request behind it at once; return both replies.

        See Lane.exchange_two.
        """
        connection = self._connection
        try:
            if not self._connected:
                await self._open()
            await connection.send_packed_command((wait + request,))
            waited = await _awaited_or_refusal(self._outlast(blocking))
            return waited, await _awaited_or_refusal(connection.read_response())
        except BaseException:
            await self.hang_up()
            raise

    async def _open(self) -> None:
        try:
            await self._connection.connect()
        except FAILURES as error:
            note_not_sent(error)
            raise
        self._connected = True

    async def _outlast(self, blocking: float) -> Any:
        # redis-py's own limit would return None as if that were the reply.
        limit = blocking + LATE_SECONDS
        read = self._connection.read_response(timeout=limit + LATE_SECONDS)
        try:
            return await asyncio.wait_for(read, limit)
        except asyncio.TimeoutError as error:
            raise RedisTimeoutError(
                f"no answer {LATE_SECONDS} s after the block"
            ) from error

    async def hang_up(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connected = False
        await self._connection.disconnect(nowait=True)


async def _awaited_or_refusal(reading: Awaitable[Any]) -> Any:
    try:
        return await reading
    except ResponseError as refusal:
        return refusal


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
