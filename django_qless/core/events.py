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
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio.client
import redis.client
from redis.exceptions import TimeoutError as RedisTimeoutError

from .arguments import all_known
from .calls import Steps, adrive, drive
from .exceptions import ConnectionLost
from .retry import FAILURES, TABLE, Remedy, code_of, pauses, translated

#: Channels that carry bare jids of tracked jobs.
TRACKED = (
    *("put", "popped", "completed", "failed"),
    *("canceled", "stalled", "track", "untrack"),
)

#: Seconds of silence after which the subscriber asks whether the server is there.
SILENCE = 10.0

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


class _Subscription(ABC):
    """What both subscribers do: a PubSub of redis-py, and what is known of it.

    The PubSub connects and subscribes again by itself when it is used after a loss.
    """

    def __init__(self, pubsub: Any, prefix: str, channels: Sequence[str]) -> None:
        self._pubsub = pubsub
        self._prefix = prefix
        self._channels = [
            prefix + name for name in all_known("channels", channels, least=1)
        ]
        self._waits = pauses()
        self._retry_at = 0.0
        self._again = False
        # Whether a step was broken off, after which nobody knows what was read.
        self._broken = False
        self._begin()

    @property
    @abstractmethod
    def _is_closed(self) -> bool: ...

    @abstractmethod
    def _pause(self, seconds: float) -> Any: ...

    @abstractmethod
    def _disconnect(self) -> Any: ...

    @property
    def _subscribed(self) -> bool:
        """Whether the server has confirmed all channels on this connection."""
        return self._confirmed == len(self._channels)

    @property
    def _silent_at(self) -> float:
        """When the silence will have lasted so long that something has to be done."""
        return self._heard + (2 if self._asked else 1) * SILENCE

    def _begin(self) -> None:
        """Note that the next message comes over a new connection."""
        self._confirmed = 0
        self._heard = time.monotonic()
        self._asked = False

    def _open(self, timeout: float) -> Steps[None]:
        deadline = time.monotonic() + timeout
        while not self._subscribed:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"No subscription within {timeout:g} s")
            yield from self._step(left)

    def _next(self, timeout: float | None) -> Steps[Event | None]:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._is_closed:
            left = deadline - time.monotonic()
            event = yield from self._step(max(0.0, left))
            if event is not None or left <= 0:
                return event
        return None

    def _step(self, seconds: float) -> Steps[Event | None]:
        """Do one thing towards the next event, in at most so many seconds."""
        event = None
        try:
            if self._broken:
                yield self._hang_up()
            self._broken = True
            if self._pubsub.channels:
                # A limit of zero would not even look at what has arrived.
                wait = min(seconds, self._silent_at - time.monotonic())
                message = yield self._pubsub.get_message(timeout=max(0.01, wait))
                event = self._read(message)
                yield from self._mind_silence()
            else:
                yield self._pubsub.subscribe(*self._channels)
            self._broken = False
        except FAILURES as error:
            if not self._is_closed:
                yield self._hang_up()
                if _is_lasting(error):
                    raise translated(error) from error
                yield self._pause(min(seconds, next(self._waits)))
        if self._is_closed:
            yield self._hang_up()
        return event

    def _mind_silence(self) -> Steps[None]:
        """Ask whether the server is there when it is silent; raise if it stays silent."""
        silent = time.monotonic() - self._heard
        if self._asked:
            if silent >= 2 * SILENCE:
                raise RedisTimeoutError(f"silence for {silent:.0f} s")
        elif silent >= SILENCE:
            self._asked = True
            yield self._pubsub.ping()

    def _hang_up(self) -> Any:
        self._begin()
        self._broken = False
        return self._disconnect() if self._pubsub.connection else self._pause(0)

    def _read(self, message: dict[str, Any] | None) -> Event | None:
        """Return the event that a message of the server is, if it is one."""
        if message is None:
            return None
        self._heard = time.monotonic()
        self._asked = False
        if message["type"] == "subscribe":
            self._confirmed += 1
            if self._subscribed:
                self._waits = pauses()
                again, self._again = self._again, True
                return Event(RECONNECTED) if again else None
        if message["type"] != "message":
            return None
        channel, text = message["channel"].removeprefix(self._prefix), message["data"]
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


def _is_lasting(error: BaseException) -> bool:
    """Return whether an error would be the same on the next connection."""
    remedy, _ = TABLE.get(code_of(error), TABLE["ERR"])
    return remedy in (Remedy.NONE, Remedy.RELOAD)


class Subscriber(_Subscription):
    """Receives events in one thread; another thread may close it.

    Iterating yields events until it is closed. Raises NotPermitted or NotAuthenticated
    if the server refuses; a lost connection is made again, for as long as it takes.
    `pool` is a pool of redis-py.
    """

    def __init__(self, pool: Any, prefix: str, channels: Sequence[str]) -> None:
        super().__init__(redis.client.PubSub(pool), prefix, channels)
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
        with self._reading:
            drive(self._open(timeout))

    def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; return None if none came in `timeout` seconds."""
        with self._reading:
            return drive(self._next(timeout))

    # For a loop that watches several things and must not be held up by one of them.

    def fileno(self) -> int | None:
        """Return what to watch for reading; None while there is no connection."""
        sock = getattr(self._pubsub.connection, "_sock", None)
        number: int = sock.fileno() if sock else -1
        return number if number >= 0 else None

    @property
    def due(self) -> float:
        """When to call `look` though there is nothing to read (monotonic seconds)."""
        return self._retry_at if self.fileno() is None else self._silent_at

    def look(self) -> list[Event]:
        """Return the events that are there; wait for none.

        Makes a lost connection again when its time has come, which takes as long as
        connecting does. Raises what `next` raises.
        """
        events: list[Event] = []
        with self._reading:
            try:
                if self.fileno() is None and time.monotonic() < self._retry_at:
                    return events
                if not self._pubsub.channels:
                    self._pubsub.subscribe(*self._channels)
                while message := self._pubsub.get_message(timeout=0):
                    event = self._read(message)
                    if event is not None:
                        events.append(event)
                drive(self._mind_silence())
            except FAILURES as error:
                self._hang_up()
                self._retry_at = time.monotonic() + next(self._waits)
                if _is_lasting(error):
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
                self._pubsub.unsubscribe()

    @property
    def _is_closed(self) -> bool:
        return self._closed.is_set()

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def _disconnect(self) -> None:
        self._pubsub.connection.disconnect()


class AsyncSubscriber(_Subscription):
    """Receives events in one task; another task may close it. See Subscriber."""

    def __init__(self, pool: Any, prefix: str, channels: Sequence[str]) -> None:
        super().__init__(redis.asyncio.client.PubSub(pool), prefix, channels)
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
        """Subscribe now; see Subscriber.open."""
        await adrive(self._open(timeout))

    async def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; return None if none came in `timeout` seconds."""
        return await adrive(self._next(timeout))

    async def close(self) -> None:
        """End the subscription; a `next` under way in another task returns None."""
        self._closed = True
        await self._hang_up()

    @property
    def _is_closed(self) -> bool:
        return self._closed

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _disconnect(self) -> None:
        await self._pubsub.connection.disconnect(nowait=True)
