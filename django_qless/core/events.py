"""Events of a namespace as they happen, by a subscriber that reconnects.

Publish and subscribe forgets: what is published while the connection is lost is lost.
So after each reconnection the subscriber yields an event named `reconnected`, which says:
look at the present state, something may have passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import TimeoutError as RedisTimeoutError

from .arguments import all_known
from .exceptions import ConnectionLost
from .retry import FAILURES, TABLE, Remedy, code_of, pauses, translated
from .wire import command

#: Channels that carry bare jids of tracked jobs.
TRACKED = (
    *("put", "popped", "completed", "failed"),
    *("canceled", "stalled", "track", "untrack"),
)

#: Seconds of silence after which the subscriber asks whether the server is there.
SILENCE = 10.0

PING = command("PING")

RECONNECTED = "reconnected"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    #: put, completed, advanced, failed, canceled, lock_lost, config_set, …; or
    #: reconnected.
    event: str
    #: The channel without the prefix: log, w:<worker>, or the event of a tracked job.
    channel: str = ""
    jid: str = ""
    #: All members of the message.
    details: dict[str, Any] = field(default_factory=dict)


class _Conversation:
    """What both subscribers say, understand and remember of one subscription."""

    def __init__(self, prefix: str, channels: Sequence[str]) -> None:
        self._prefix = prefix
        self._channels = all_known("channels", channels, least=1)
        self._again = False
        self.subscribe = command(
            "SUBSCRIBE", *[prefix + channel for channel in self._channels]
        )
        self.unsubscribe = command("UNSUBSCRIBE")
        self.begin()

    def begin(self) -> None:
        """Note that a new connection is being made."""
        self.connected = False
        self._confirmed = 0
        self._heard = time.monotonic()
        self._asked = False

    @property
    def subscribed(self) -> bool:
        """Whether the server has confirmed all channels on this connection."""
        return self.connected and self._confirmed == len(self._channels)

    @property
    def due(self) -> float:
        """When the silence will have lasted so long that something has to be done."""
        return self._heard + (2 if self._asked else 1) * SILENCE

    def patience(self, seconds: float) -> float:
        """Return how long to wait for a message when the caller would wait so long."""
        return max(0.0, min(seconds, self.due - time.monotonic()))

    def silence(self) -> bytes | None:
        """Return what to send because no message came; raise if that was done before."""
        silent = time.monotonic() - self._heard
        if self._asked:
            if silent >= 2 * SILENCE:
                raise RedisTimeoutError(f"silence for {silent:.0f} s")
        elif silent >= SILENCE:
            self._asked = True
            return PING
        return None

    def read(self, reply: Any) -> Event | None:
        """Return the event that a message of the server is, if it is one."""
        self._heard = time.monotonic()
        self._asked = False
        kind = reply[0]
        if kind == "subscribe":
            self._confirmed += 1
            if self.subscribed:
                again, self._again = self._again, True
                return Event(RECONNECTED) if again else None
        if kind != "message":
            return None
        channel, text = reply[1].removeprefix(self._prefix), reply[2]
        if channel in TRACKED:
            return Event(channel, channel, text, {"jid": text})
        try:
            details = json.loads(text)
        except ValueError:
            details = None
        if not isinstance(details, dict):
            return None  # Somebody else's message on our channel.
        jid = str(details.get("jid") or "")
        return Event(str(details.get("event")), channel, jid, details)


def _lasting(error: BaseException) -> bool:
    """Whether an error would be the same on the next connection."""
    remedy, _ = TABLE.get(code_of(error), TABLE["ERR"])
    return remedy in (Remedy.NONE, Remedy.RELOAD)


class Subscriber:
    """Receives events in one thread; another thread may close it.

    Iterating yields events until it is closed. Raises NotPermitted or NotAuthenticated
    if the server refuses; a lost connection is made again, for as long as it takes.
    """

    def __init__(
        self, connect: Callable[[], Any], prefix: str, channels: Sequence[str]
    ) -> None:
        self._talk = _Conversation(prefix, channels)
        self._connection = connect()
        self._waits = pauses()
        self._retry_at = 0.0
        self._closed = threading.Event()
        self._reading = threading.Lock()

    def __enter__(self) -> Subscriber:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while not self._closed.is_set():
            event = self.next()
            if event is not None:
                yield event

    def open(self, timeout: float = 10.0) -> None:
        """Subscribe now; what happens after the return will be received.

        Raises ConnectionLost if the server has not confirmed it in `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._talk.subscribed:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"No subscription within {timeout:g} s")
            self._step(left)

    def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; return None if none came in `timeout` seconds."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._closed.is_set():
            left = deadline - time.monotonic()
            event = self._step(max(0.0, left))
            if event is not None or left <= 0:
                return event
        return None

    # For a loop that watches several things and must not be held up by one of them.

    def fileno(self) -> int | None:
        """Return what to watch for reading; None while there is no connection."""
        sock = self._connection._sock if self._talk.connected else None
        number: int = sock.fileno() if sock else -1
        return number if number >= 0 else None

    @property
    def due(self) -> float:
        """When to call `look` though there is nothing to read (monotonic seconds)."""
        return self._talk.due if self._talk.connected else self._retry_at

    def look(self) -> list[Event]:
        """Return the events that are there; wait for none.

        Makes a lost connection again when its time has come, which takes as long as
        connecting does. Raises what `next` raises.
        """
        events: list[Event] = []
        with self._reading:
            try:
                if not self._talk.connected:
                    if time.monotonic() < self._retry_at:
                        return events
                    self._subscribe()
                while self._connection.can_read(timeout=0):
                    event = self._talk.read(self._connection.read_response())
                    if event is not None:
                        events.append(event)
                    if self._talk.subscribed:
                        self._waits = pauses()
                request = self._talk.silence()
                if request:
                    self._connection.send_packed_command((request,))
            except FAILURES as error:
                self._hang_up()
                self._retry_at = time.monotonic() + next(self._waits)
                if _lasting(error):
                    raise translated(error) from error
        return events

    def close(self) -> None:
        """End the subscription; a `next` under way in another thread returns None."""
        self._closed.set()
        if self._reading.acquire(blocking=False):
            self._hang_up()
            self._reading.release()
        else:
            # The other thread waits for a message: the answer to this is one.
            with contextlib.suppress(*FAILURES):
                self._connection.send_packed_command((self._talk.unsubscribe,))

    def _step(self, seconds: float) -> Event | None:
        """Do one thing towards the next event, in at most so many seconds."""
        with self._reading:
            try:
                if self._talk.connected:
                    return self._receive(seconds)
                self._subscribe()
            except FAILURES as error:
                self._hang_up()
                if _lasting(error):
                    raise translated(error) from error
                self._closed.wait(min(seconds, next(self._waits)))
            except BaseException:
                self._hang_up()
                raise
            finally:
                if self._closed.is_set():
                    self._hang_up()
        return None

    def _subscribe(self) -> None:
        self._connection.connect()
        self._connection.send_packed_command((self._talk.subscribe,))
        self._talk.connected = True

    def _receive(self, seconds: float) -> Event | None:
        if self._connection.can_read(timeout=self._talk.patience(seconds)):
            event = self._talk.read(self._connection.read_response())
            if self._talk.subscribed:
                self._waits = pauses()
            return event
        request = self._talk.silence()
        if request:
            self._connection.send_packed_command((request,))
        return None

    def _hang_up(self) -> None:
        self._talk.begin()
        self._connection.disconnect()


class AsyncSubscriber:
    """Receives events in one task; another task may close it. See Subscriber."""

    def __init__(
        self, connect: Callable[[], Any], prefix: str, channels: Sequence[str]
    ) -> None:
        self._talk = _Conversation(prefix, channels)
        self._connection = connect()
        self._waits = pauses()
        self._closed = False

    async def __aenter__(self) -> AsyncSubscriber:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._closed:
            event = await self.next()
            if event is not None:
                yield event

    async def open(self, timeout: float = 10.0) -> None:
        """Subscribe now; what happens after the return will be received.

        Raises ConnectionLost if the server has not confirmed it in `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._talk.subscribed:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"No subscription within {timeout:g} s")
            await self._step(left)

    async def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; return None if none came in `timeout` seconds."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._closed:
            left = deadline - time.monotonic()
            event = await self._step(max(0.0, left))
            if event is not None or left <= 0:
                return event
        return None

    async def close(self) -> None:
        """End the subscription; a `next` under way in another task returns None."""
        self._closed = True
        await self._hang_up()

    async def _step(self, seconds: float) -> Event | None:
        """Do one thing towards the next event, in at most so many seconds."""
        try:
            if self._talk.connected:
                return await self._receive(seconds)
            await self._subscribe()
        except FAILURES as error:
            await self._hang_up()
            if not self._closed:
                if _lasting(error):
                    raise translated(error) from error
                await asyncio.sleep(min(seconds, next(self._waits)))
        except BaseException:
            await self._hang_up()
            raise
        return None

    async def _subscribe(self) -> None:
        await self._connection.connect()
        await self._connection.send_packed_command((self._talk.subscribe,))
        self._talk.connected = True

    async def _receive(self, seconds: float) -> Event | None:
        # A limit of zero would not even look at what has arrived.
        limit = max(0.01, self._talk.patience(seconds))
        reply = await self._connection.read_response(timeout=limit)
        if reply is not None:
            event = self._talk.read(reply)
            if self._talk.subscribed:
                self._waits = pauses()
            return event
        request = self._talk.silence()
        if request:
            await self._connection.send_packed_command((request,))
        return None

    async def _hang_up(self) -> None:
        self._talk.begin()
        await self._connection.disconnect(nowait=True)
