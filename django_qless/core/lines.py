"""What a lane says and hears through: a connection of redis-py, or its socket itself.

redis-py makes the connection, with all that its user has asked for. What it does around
each request and reply after that costs as much as the two together; with hiredis at hand
the socket is used directly.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Any, Protocol

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

hiredis: Any
try:
    import hiredis
except ImportError:
    hiredis = None

_PIECE = 64 * 1024
_INCOMPLETE = object()


class Line(Protocol):
    """An open connection, one request at a time."""

    def send(self, request: bytes) -> None:
        """Send bytes."""

    def read(self) -> Any:
        """Return the next reply; raise a ResponseError if it is one."""

    def wait(self, seconds: float) -> bool:
        """Wait for something to read; return whether there is."""


class OfRedis:
    """A connection as redis-py serves it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def send(self, request: bytes) -> None:
        """Send bytes."""
        self._connection.send_packed_command((request,))

    def read(self) -> Any:
        """Return the next reply; raise a ResponseError if it is one."""
        return self._connection.read_response()

    def wait(self, seconds: float) -> bool:
        """Wait for something to read; return whether there is."""
        return bool(self._connection.can_read(timeout=seconds))


class OfSocket:
    """A connection's socket, and a reader of replies."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._socket = sock
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=ResponseError,
            encoding="utf-8",
            errors="surrogateescape",
            notEnoughData=_INCOMPLETE,
        )
        if type(sock) is socket.socket:
            # The kernel keeps the time: Python would ask it twice for each step.
            limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            sock.settimeout(None)
        self.send = sock.sendall

    def read(self) -> Any:
        """Return the next reply; raise a ResponseError if it is one."""
        reader = self._reader
        reply = reader.gets()
        while reply is _INCOMPLETE:
            try:
                data = self._socket.recv(_PIECE)
            except (BlockingIOError, TimeoutError) as error:
                raise RedisTimeoutError("the server is silent") from error
            if not data:
                raise RedisConnectionError("the server has closed the connection")
            reader.feed(data)
            reply = reader.gets()
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def wait(self, seconds: float) -> bool:
        """Wait for something to read; return whether there is."""
        if getattr(self._socket, "pending", int)():
            return True  # TLS has decrypted something already
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(seconds * 1000))


def line_of(connection: Any) -> Line:
    """Return the way to speak through an open connection of redis-py."""
    sock = getattr(connection, "_sock", None)
    seconds = getattr(connection, "socket_timeout", None)
    if hiredis is None or not isinstance(sock, socket.socket) or not seconds:
        return OfRedis(connection)
    return OfSocket(sock, seconds)
