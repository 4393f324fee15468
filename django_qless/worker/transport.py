"""The asyncio connection of a worker's parent to the server of an alias.

One task of the parent uses a transport at a time, so that no call waits behind another: a
source has one for waiting and reserving, one for settling, one for heartbeats and the
ticker, and one for events.

The core keeps the reply to the last request of each client id. A request whose reply was
lost is sent again under its id: what was executed is answered as before, and nothing is done
twice. The same rule resolves a wait that was interrupted: another command that takes over
its id gets the reply to the first one if that was executed, and replaces it otherwise.

So the id of a request that may have brought jobs is used until there is an answer, however
long the server is away: jobs that this worker does not know of would stay locked.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import redis.asyncio
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_qless.core.cluster import slot_map_of
from django_qless.core.connection import pack_command
from django_qless.core.events import RECONNECTED, SILENCE, Event, read_event
from django_qless.core.exceptions import (
    ConnectionLost,
    NotReached,
    QlessError,
    ServerError,
)
from django_qless.core.redis_pool import copy_pool
from django_qless.core.request import Command
from django_qless.core.retry import (
    FAILURES,
    Remedy,
    Retries,
    backoff,
    code_of,
    is_lasting,
    note_not_sent,
    to_qless_error,
)
from django_qless.core.script import Library, Script, check_loading

T = TypeVar("T")

#: Notes that a request has had no answer; returns the seconds until it is sent again.
Failed = Callable[[QlessError], float]

#: Seconds that the reply to a blocking command may come later than its own limit.
LATE_SECONDS = 5.0

#: Seconds until a task is cancelled again that goes on.
CANCEL_AGAIN = 0.05


class Transport:
    """A connection that opens itself when needed; for one task at a time.

    `raw` is a connection of redis.asyncio that is not open. It finds the server whenever it
    connects: by its address, or by asking Sentinels or the nodes of a cluster.
    """

    def __init__(
        self, raw: Any, script: Script, prefix: str, *, retry_timeout: float
    ) -> None:
        self._raw = raw
        self._script = script
        self._prefix = prefix
        #: Seconds for which a request is repeated while the server does not answer.
        self.retry_timeout = retry_timeout
        #: What the connection needs in order to find the server.
        self.pool: Any = None
        #: The server's refusal of the last wait, for example for want of a permission.
        self.wait_refusal: QlessError | None = None
        self._client_id = secrets.token_urlsafe(8)
        self._sequence = 0
        # False while a reply is outstanding: it must not be read as that to the next request.
        self._is_ready = False

    async def call(self, command: Command[T]) -> T:
        """Send a command, repeat it as long as it has no answer, and return its result.

        Raises QlessError.
        """
        request_id = self._next_id(command)
        return command.read(await self._answer(command, request_id))

    async def call_for_certain(self, command: Command[T], failed: Failed) -> T:
        """Send a command as `call` does, but repeat it for ever if it may be executed.

        Raises QlessError if it was not executed.
        """
        request_id = self._next_id(command)
        return command.read(await self._certain(command, request_id, failed))

    async def wait_then(
        self,
        keys: Sequence[str],
        seconds: float,
        command: Command[T],
        *,
        interrupted: asyncio.Event,
        replacement: Callable[[], Command[T]],
        failed: Failed,
    ) -> T:
        """Block on `keys` (BZPOPMIN) for up to `seconds`, then send a command.

        Both are sent at once, so the server executes the command in the moment in which the
        wait ends. If `interrupted` is set before, or there is no answer, the wait is given
        up and `replacement()` takes its place, for ever: its result is returned, or that of
        `command` if it was executed all the same. Raises QlessError if it was not.
        """
        request_id = self._next_id(command)
        waiting = asyncio.ensure_future(
            self._answer(command, request_id, wait=(keys, seconds))
        )
        interruption = asyncio.ensure_future(interrupted.wait())
        try:
            await asyncio.wait(
                (waiting, interruption), return_when=asyncio.FIRST_COMPLETED
            )
            try:
                if waiting.done():
                    return command.read(waiting.result())
            except ConnectionLost as error:
                if not may_be_executed(error):
                    raise
                await asyncio.sleep(failed(error))
            await end_tasks([waiting])
            other = replacement()
            return other.read(
                await self._certain(other, request_id, failed, is_open=True)
            )
        finally:
            interruption.cancel()
            if not waiting.done():
                await end_tasks([waiting])

    async def events(self, channels: Sequence[str]) -> AsyncIterator[Event]:
        """Subscribe to `channels` (names without the prefix) and yield their events.

        Subscribes again after a lost connection, and yields an event RECONNECTED then:
        events may be missing. Raises QlessError if the server refuses the subscription.
        """
        prefix = self._prefix
        shard = "S" if self._is_of_cluster else ""
        subscribe = pack_command(
            f"{shard}SUBSCRIBE", *(prefix + name for name in channels)
        )
        pauses = backoff()
        was_subscribed = False
        while True:
            try:
                await self._send(subscribe)
                for _ in channels:
                    await self._receive()
                pauses = backoff()
                if was_subscribed:
                    yield Event(RECONNECTED)
                was_subscribed = True
                while True:
                    kind, *rest = await self._next_message()
                    if kind.endswith("unsubscribe"):
                        break  # The slot has moved to another node.
                    if kind.endswith("message"):
                        channel, text = rest
                        event = read_event(channel.removeprefix(prefix), text)
                        if event is not None:
                            yield event
            except FAILURES as error:
                if code_of(error) == "MOVED" and self._is_of_cluster:
                    self._raw.follow(error)
                elif is_lasting(error):
                    raise to_qless_error(error) from error
            finally:
                await self.close()
            self._look_again()
            await asyncio.sleep(next(pauses))

    def fileno(self) -> int:
        """Return the descriptor of the open connection; -1 without one."""
        writer = getattr(self._raw, "_writer", None)
        number: int = writer.get_extra_info("socket").fileno() if writer else -1
        return number

    async def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self._is_ready = False
        await self._raw.disconnect(nowait=True)

    def _next_id(self, command: Command[Any]) -> str:
        if command.kind == "read":
            return ""
        self._sequence += 1
        return f"{self._client_id}:{self._sequence}"

    async def _certain(
        self,
        command: Command[Any],
        request_id: str,
        failed: Failed,
        *,
        is_open: bool = False,
    ) -> Any:
        """Return the reply to a command, sent for ever once it may be executed.

        `is_open` says that an earlier request with this id may be.
        """
        while True:
            try:
                return await self._answer(command, request_id)
            except ServerError as error:
                is_open = is_open or may_be_executed(error)
                if not is_open:
                    raise
                await asyncio.sleep(failed(error))

    async def _answer(
        self,
        command: Command[Any],
        request_id: str,
        *,
        wait: tuple[Sequence[str], float] | None = None,
    ) -> Any:
        """Return the reply to a command, sent as often as needed; only once behind a wait."""
        retries = Retries(
            self.retry_timeout + (wait[1] if wait else 0.0),
            reads=command.kind == "read",
            in_cluster=self._is_of_cluster,
        )
        remedy: Remedy | None = None
        while True:
            try:
                if remedy is Remedy.RELOAD:
                    await self._load()
                request = self._script.request(command, request_id)
                if wait is not None:
                    keys_and_seconds, wait = wait, None
                    return await self._exchange_behind_wait(*keys_and_seconds, request)
                return await self._exchange(request)
            except FAILURES as error:
                remedy, pause = retries.after(error)
                if pause is not None:
                    if remedy is Remedy.FOLLOW:
                        self._raw.follow(error)
                        await self.close()
                    elif remedy is Remedy.RECONNECT:
                        self._look_again()
                        await self.close()
                    await asyncio.sleep(pause)

    async def _load(self) -> None:
        """Load the core; another client may have been faster."""
        try:
            await self._exchange(self._script.loading)
        except FAILURES as error:
            check_loading(error)

    async def _exchange(self, request: bytes) -> Any:
        await self._send(request)
        reply = await self._receive()
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def _exchange_behind_wait(
        self, keys: Sequence[str], seconds: float, request: bytes
    ) -> Any:
        await self._send(pack_command("BZPOPMIN", *keys, seconds) + request)
        woken = await self._read(seconds + LATE_SECONDS)
        is_refused = isinstance(woken, ResponseError) and is_lasting(woken)
        self.wait_refusal = to_qless_error(woken) if is_refused else None
        reply = await self._receive()
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def _send(self, data: bytes) -> None:
        """Send requests over an open connection without outstanding replies."""
        if not self._is_ready:
            await self.close()
            try:
                await self._raw.connect()
            except FAILURES as error:
                note_not_sent(error)
                raise
        self._is_ready = False
        await self._raw.send_packed_command((data,), check_health=False)

    async def _receive(self) -> Any:
        """Return the last outstanding reply; a refusal is returned as its ResponseError."""
        reply = await self._read(None)
        self._is_ready = True
        return reply

    async def _read(self, seconds: float | None) -> Any:
        """Return a reply, or a refusal as its ResponseError; None: within the usual limit."""
        try:
            if seconds is None:
                return await self._raw.read_response()
            async with asyncio.timeout(seconds):
                # redis-py returns None when its own limit ends, as if that were the reply.
                return await self._raw.read_response(timeout=2 * seconds)
        except ResponseError as refusal:
            return refusal
        except TimeoutError as error:
            raise RedisTimeoutError(f"no reply for {seconds:g} s") from error

    async def _next_message(self) -> list[Any]:
        """Return what comes next on the subscribed connection; ping a silent server."""
        message = await self._raw.read_response(timeout=SILENCE)
        if message is None:
            await self._raw.send_packed_command(
                (pack_command("PING"),), check_health=False
            )
            message = await self._raw.read_response(timeout=SILENCE)
        if message is None:
            raise RedisTimeoutError(f"no answer to PING for {SILENCE:g} s")
        reply: list[Any] = message
        return reply

    @property
    def _is_of_cluster(self) -> bool:
        return hasattr(self._raw, "slot_map")

    def _look_again(self) -> None:
        """In a cluster, ask where the slot is before connecting again."""
        if self._is_of_cluster:
            self._raw.look_again()


def transport_of(
    client: redis.asyncio.Redis, prefix: str, *, retry_timeout: float
) -> Transport:
    """Return a transport to the server of a redis-py client, which is not used itself."""
    script = Script(prefix, Library.default(), sharded=slot_map_of(client) is not None)
    pool = copy_pool(client)
    made = Transport(
        pool.make_connection(), script, prefix, retry_timeout=retry_timeout
    )
    # Of Sentinels a connection has only a weak reference to its pool.
    made.pool = pool
    return made


def may_be_executed(error: QlessError) -> bool:
    """Return whether the request that failed may have been executed, or may be yet."""
    return isinstance(error, ConnectionLost) and not isinstance(error, NotReached)


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks until they have ended.

    Once is not enough: `asyncio.wait_for`, which redis-py uses, returns a result that comes
    at the same moment, before Python 3.12.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        # Not by awaiting them: their cancellation could be confused with the caller's.
        ended, left = await asyncio.wait(left, timeout=CANCEL_AGAIN)
        for task in ended:
            if not task.cancelled():
                task.exception()
