"""Connections of redis-py, kept between requests, one exchange at a time on each.

The server keeps the reply to the last request of each client id, so one client id must
have one request under way, and so must one connection: they go together.

A connection is `ready` only while no exchange is under way. Whatever interrupts an exchange
(an error, an exception that a signal handler raises at any instruction, a cancelled task)
leaves it unready, and then it is closed before anything is sent: the reply to one request
is never taken for that to the next.

Arguments are packed here and not in redis-py, which saves two thirds of its time: the part
of a request that is always the same is packed once (`script.py`), and so are batches
(`put.py`).

The pools here know which connections are free. redis-py's would look at each before each
request, which costs a quarter of it, and they take back one whose opening was interrupted.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from .arguments import decimal_text, quoted
from .exceptions import BadArgument
from .protocol import Argument, Packed
from .request import Blocking, Command, Steps, stepwise
from .retry import FAILURES, note_not_sent, repeat_request

if TYPE_CHECKING:
    from .redis_pool import Limits
    from .script import Script

T = TypeVar("T")

# How the queues of free connections tell that they are empty.
EMPTY = (Empty, asyncio.QueueEmpty)

#: Seconds that the answer to a blocking command may come too late, at most.
LATE_SECONDS = 5.0


def pack(arguments: Iterable[Argument]) -> Packed:
    """Return the arguments as bytes; raise BadArgument for what cannot be sent."""
    pieces = []
    more = 0
    try:
        for argument in arguments:
            if type(argument) is str:
                text = argument.encode()
            elif type(argument) is int:
                text = b"%d" % argument
            elif type(argument) is Packed:
                pieces.append(argument.data)
                more += argument.number - 1
                continue
            else:
                text = _encoded(argument)
            pieces.append(b"$%d\r\n%b\r\n" % (len(text), text))
    except UnicodeEncodeError as error:
        raise BadArgument(
            f"{quoted(error.object)} cannot be sent: it has a lone surrogate, which "
            f"UTF-8 lacks"
        ) from None
    return Packed(len(pieces) + more, b"".join(pieces))


def pack_command(*arguments: Argument) -> bytes:
    """Return the bytes of one command."""
    return b"*%d\r\n%b" % pack(arguments)


def pack_request(start: Packed, request_id: str, args: Iterable[Argument]) -> bytes:
    """Return the bytes of a command to the core that begins so."""
    number, head = start
    more, rest = pack((request_id, *args))
    return b"*%d\r\n%b%b" % (number + more, head, rest)


def _encoded(argument: object) -> bytes:
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, (int, float)) and not isinstance(argument, bool):
        return decimal_text(argument).encode()
    raise BadArgument(
        f"{quoted(argument)} cannot be sent: give text, bytes or a number"
    )


class BaseConnection:
    """A connection of redis-py, opened when needed, with its client id."""

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

    @property
    def _late_seconds(self) -> float:
        """Seconds that the answer to a blocking command may come too late."""
        return min(LATE_SECONDS, self._raw.socket_timeout or LATE_SECONDS)

    def hang_up(self) -> Any:
        """Close the connection; the next request opens it again."""
        self._ready = False
        return self._disconnect()

    @property
    def is_of_cluster(self) -> bool:
        """Whether it looks for the node of a cluster that has the namespace."""
        return hasattr(self._raw, "slot_map")

    def leave(self) -> Any:
        """Close the connection; in a cluster the next one goes where the slot is then."""
        if self.is_of_cluster:
            self._raw.look_again()
        return self.hang_up()

    def follow(self, moved: BaseException) -> Any:
        """Close the connection; the next one goes where this MOVED points."""
        self._raw.follow(moved)
        return self.hang_up()

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


def late(seconds: float) -> RedisTimeoutError:
    return RedisTimeoutError(f"no answer {seconds:g} s after the block")


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
        if blocking is None or raw.can_read(timeout=blocking + self._late_seconds):
            return raw.read_response()
        raise late(self._late_seconds)


C = TypeVar("C", bound=BaseConnection)


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

    def execute(self, command: Command[T], script: Script, patience: float) -> Steps[T]:
        """Send a command on a free connection and return its result.

        Repeats it for `patience` seconds if the server is lost or not ready.
        """
        pool: Any = self
        connection = self.idle() or (yield pool.acquire(patience))
        try:
            request_id = command.request_id
            if not request_id and command.kind != "read":
                request_id = connection.next_request()
            # What `script.request` returns.
            start = script.starts[command.name, script.now, command.kind]
            request = pack_request(start, request_id, command.args)
            try:
                reply = yield from connection.exchange(request)
            except FAILURES as error:
                reply = yield from repeat_request(
                    error, connection, script, command, request_id, patience
                )
        finally:
            self.release(connection)
        decode = command.decode
        result: T = reply if decode is None else decode(reply)
        return result

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
        except (TimeoutError, Empty):
            raise self._limits.exhausted(patience) from None
        return waited

    def release(self, connection: C) -> None:
        """Return a connection to the pool."""
        self._idle.put_nowait(connection)

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
