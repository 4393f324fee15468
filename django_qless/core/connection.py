"""A connection of redis-py, lent together with a request id, for one exchange at a time.

The server keeps the reply to the last request of each client id, so one client id must
have one request under way, and so must one connection: they go together.

A connection is `ready` only while no exchange is under way. Whatever breaks an exchange
off (an error, an exception that a signal handler raises at any instruction, a cancelled
task) leaves it unready, and then it is closed before anything is sent: the reply to one
request is never taken for that to the next.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable
from typing import Any

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from .retry import FAILURES, note_not_sent

#: Seconds that the answer to a blocking command may come too late.
LATE_SECONDS = 5.0


class _RequestIds:
    """A client id and the number of its last request."""

    __slots__ = ("_client_id", "_sequence")

    def __init__(self) -> None:
        self._client_id = secrets.token_urlsafe(8)
        self._sequence = 0

    def next_request(self) -> str:
        """Return the id of a new request."""
        self._sequence += 1
        return f"{self._client_id}:{self._sequence}"


class Connection(_RequestIds):
    """One exchange at a time over a connection of redis-py, which is opened when needed."""

    __slots__ = ("__weakref__", "_raw", "_ready")

    def __init__(self, raw: Any) -> None:
        super().__init__()
        self._raw = raw
        self._ready = False

    def exchange(self, request: bytes, blocking: float | None = None) -> Any:
        """Send a request and return its reply, which may take `blocking` seconds more."""
        raw = self._raw
        if not self._ready:
            self._open()
        self._ready = False
        try:
            raw.send_packed_command((request,), check_health=False)
            if blocking is not None:
                _outlast(raw, blocking)
            reply = raw.read_response()
        except ResponseError:
            self._ready = True
            raise
        except BaseException:
            self.hang_up()
            raise
        self._ready = True
        return reply

    def send(self, request: bytes) -> None:
        """Send a request; the next thing to do is to `receive` its reply."""
        if not self._ready:
            self._open()
        self._ready = False
        try:
            self._raw.send_packed_command((request,), check_health=False)
        except BaseException:
            self.hang_up()
            raise

    def receive(self) -> Any:
        """Return the reply to what was sent."""
        try:
            reply = self._raw.read_response()
        except ResponseError:
            self._ready = True
            raise
        except BaseException:
            self.hang_up()
            raise
        self._ready = True
        return reply

    def exchange_two(
        self, wait: bytes, request: bytes, blocking: float
    ) -> tuple[Any, Any]:
        """Send a command that blocks and a request behind it at once; return both replies.

        A reply that is a refusal is returned as its ResponseError: the other one counts
        all the same.
        """
        raw = self._raw
        if not self._ready:
            self._open()
        self._ready = False
        try:
            raw.send_packed_command((wait + request,), check_health=False)
            _outlast(raw, blocking)
            replies = _reply_or_refusal(raw), _reply_or_refusal(raw)
        except BaseException:
            self.hang_up()
            raise
        self._ready = True
        return replies

    def hang_up(self) -> None:
        """Close the connection; the next request opens it again."""
        self._ready = False
        self._raw.disconnect()

    def pause(self, seconds: float) -> None:
        """Wait before the next request."""
        time.sleep(seconds)

    def _open(self) -> None:
        self._raw.disconnect()
        try:
            self._raw.connect()
        except BaseException as error:
            self._raw.disconnect()
            if isinstance(error, FAILURES):
                note_not_sent(error)
            raise


def _outlast(raw: Any, blocking: float) -> None:
    if not raw.can_read(timeout=blocking + LATE_SECONDS):
        raise RedisTimeoutError(f"no answer {LATE_SECONDS} s after the block")


def _reply_or_refusal(raw: Any) -> Any:
    try:
        return raw.read_response()
    except ResponseError as refusal:
        return refusal


class AsyncConnection(_RequestIds):
    """The same over an asyncio connection of redis-py."""

    __slots__ = ("__weakref__", "_raw", "_ready")

    def __init__(self, raw: Any) -> None:
        super().__init__()
        self._raw = raw
        self._ready = False

    async def exchange(self, request: bytes, blocking: float | None = None) -> Any:
        """Send a request and return its reply, which may take `blocking` seconds more."""
        raw = self._raw
        if not self._ready:
            await self._open()
        self._ready = False
        try:
            await raw.send_packed_command((request,), check_health=False)
            if blocking is None:
                reply = await raw.read_response()
            else:
                reply = await _outlasting(raw, blocking)
        except ResponseError:
            self._ready = True
            raise
        except BaseException:
            await self.hang_up()
            raise
        self._ready = True
        return reply

    async def exchange_two(
        self, wait: bytes, request: bytes, blocking: float
    ) -> tuple[Any, Any]:
        """Send a command that blocks and a request behind it at once; return both replies.

        See Connection.exchange_two.
        """
        raw = self._raw
        if not self._ready:
            await self._open()
        self._ready = False
        try:
            await raw.send_packed_command((wait + request,), check_health=False)
            waited = await _awaited_or_refusal(_outlasting(raw, blocking))
            replies = waited, await _awaited_or_refusal(raw.read_response())
        except BaseException:
            await self.hang_up()
            raise
        self._ready = True
        return replies

    async def hang_up(self) -> None:
        """Close the connection; the next request opens it again."""
        self._ready = False
        await self._raw.disconnect(nowait=True)

    async def pause(self, seconds: float) -> None:
        """Wait before the next request."""
        await asyncio.sleep(seconds)

    async def _open(self) -> None:
        await self._raw.disconnect(nowait=True)
        try:
            await self._raw.connect()
        except BaseException as error:
            await self._raw.disconnect(nowait=True)
            if isinstance(error, FAILURES):
                note_not_sent(error)
            raise


async def _outlasting(raw: Any, blocking: float) -> Any:
    # redis-py's own limit would return None as if that were the reply.
    limit = blocking + LATE_SECONDS
    read = raw.read_response(timeout=limit + LATE_SECONDS)
    try:
        return await asyncio.wait_for(read, limit)
    except asyncio.TimeoutError as error:
        raise RedisTimeoutError(
            f"no answer {LATE_SECONDS} s after the block"
        ) from error


async def _awaited_or_refusal(reading: Awaitable[Any]) -> Any:
    try:
        return await reading
    except ResponseError as refusal:
        return refusal
