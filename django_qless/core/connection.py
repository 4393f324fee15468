"""Connections of redis-py, each with its own request id, one exchange at a time.

The server keeps the reply to the last request of each client id, so one client id must
have one request under way, and so must one connection: they go together.

A connection is `ready` only while no exchange is under way. Whatever interrupts an exchange
(an error, an exception that a signal handler raises at any instruction, a cancelled task)
leaves it unready, and then it is closed before anything is sent: the reply to one request
is never taken for that to the next.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from .request import Steps
from .retry import FAILURES, note_not_sent

#: Seconds that the answer to a blocking command may come too late.
LATE_SECONDS = 5.0


class BaseConnection:
    """A connection of redis-py, opened when needed, and the client id that goes with it."""

    __slots__ = ("__weakref__", "_client_id", "_raw", "_ready", "_sequence")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._ready = False
        self._client_id = secrets.token_urlsafe(8)
        self._sequence = 0

    def next_request(self) -> str:
        """Return the id of a new request."""
        self._sequence += 1
        return f"{self._client_id}:{self._sequence}"

    def exchange(self, request: bytes, blocking: float | None = None) -> Steps[Any]:
        """Send a request and return its reply, which may take `blocking` seconds more."""
        if not self._ready:
            yield from self._open()
        self._ready = False
        try:
            yield self._raw.send_packed_command((request,), check_health=False)
            reply = yield self._read(blocking)
        except ResponseError:
            self._ready = True
            raise
        except GeneratorExit:
            raise
        except BaseException:
            yield self.hang_up()
            raise
        self._ready = True
        return reply

    def send(self, request: bytes) -> Steps[None]:
        """Send one or several requests; the caller must `receive` the replies next."""
        if not self._ready:
            yield from self._open()
        self._ready = False
        try:
            yield self._raw.send_packed_command((request,), check_health=False)
        except GeneratorExit:
            raise
        except BaseException:
            yield self.hang_up()
            raise

    def receive(self, *blocking: float | None) -> Steps[list[Any]]:
        """Return a reply for each number of seconds that its command may block.

        A reply that is a refusal is returned as its ResponseError: the others count all
        the same.
        """
        replies: list[Any] = []
        try:
            for seconds in blocking:
                try:
                    replies.append((yield self._read(seconds)))
                except ResponseError as refusal:
                    replies.append(refusal)
        except GeneratorExit:
            raise
        except BaseException:
            yield self.hang_up()
            raise
        self._ready = True
        return replies

    def hang_up(self) -> Any:
        """Close the connection; the next request opens it again."""
        self._ready = False
        return self._disconnect()

    def pause(self, seconds: float) -> Any:
        """Wait before the next request."""
        raise NotImplementedError

    def _disconnect(self) -> Any:
        raise NotImplementedError

    def _read(self, blocking: float | None) -> Any:
        raise NotImplementedError

    def _open(self) -> Steps[None]:
        yield self._disconnect()
        try:
            yield self._raw.connect()
        except GeneratorExit:
            raise
        except BaseException as error:
            yield self._disconnect()
            if isinstance(error, FAILURES):
                note_not_sent(error)
            raise


class Connection(BaseConnection):
    """A connection for blocking code: its steps yield values."""

    __slots__ = ()

    def pause(self, seconds: float) -> None:
        """Wait before the next request."""
        time.sleep(seconds)

    def _disconnect(self) -> None:
        self._raw.disconnect()

    def _read(self, blocking: float | None) -> Any:
        raw = self._raw
        if blocking is None or raw.can_read(timeout=blocking + LATE_SECONDS):
            return raw.read_response()
        raise _late()


class AsyncConnection(BaseConnection):
    """A connection for asyncio: its steps yield awaitables."""

    __slots__ = ()

    async def pause(self, seconds: float) -> None:
        """Wait before the next request."""
        await asyncio.sleep(seconds)

    async def _disconnect(self) -> None:
        await self._raw.disconnect(nowait=True)

    async def _read(self, blocking: float | None) -> Any:
        if blocking is None:
            return await self._raw.read_response()
        # redis-py's own limit would return None as if that were the reply.
        limit = blocking + LATE_SECONDS
        reading = self._raw.read_response(timeout=limit + LATE_SECONDS)
        try:
            return await asyncio.wait_for(reading, limit)
        except asyncio.TimeoutError as error:
            raise _late() from error


def _late() -> RedisTimeoutError:
    return RedisTimeoutError(f"no answer {LATE_SECONDS} s after the block")
