"""Events of a namespace as they happen, by a subscriber that reconnects.

Events that are published while the connection is lost are lost. So after each reconnection
the subscriber yields an event named `reconnected`: read the present state, events may be
missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import redis.asyncio.client
import redis.client
from redis.exceptions import TimeoutError as RedisTimeoutError

from .arguments import existing_names
from .cluster_events import AsyncShardedPubSub, ShardedPubSub
from .exceptions import ConnectionLost
from .monotonic import monotonic
from .request import Awaiting, Blocking, Steps, drive, stepwise
from .retry import FAILURES, backoff, is_lasting, to_qless_error

T = TypeVar("T")

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
    """An event of the namespace."""

    #: put, completed, advanced, failed, canceled, lock_lost, config_set, …; or
    #: reconnected.
    event: str
    #: The channel without the prefix: log, w:<worker>, or the event of a tracked job.
    channel: str = ""
    jid: str = ""
    #: All members of the message.
    details: dict[str, Any] = field(default_factory=dict)


class BaseSubscriber(ABC):
    """A PubSub of redis-py and its state.

    The PubSub connects and subscribes again by itself when it is used after a loss.
    """

    def __init__(self, pubsub: Any, prefix: str, channels: Sequence[str]) -> None:
        self._pubsub = pubsub
        self._prefix = prefix
        self._channels = [
            prefix + name for name in existing_names("channels", channels, least=1)
        ]
        self._waits = backoff()
        self._again = False
        # Whether a step was interrupted, after which it is not known what was read.
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
        """True if the server has confirmed all channels on this connection."""
        return self._confirmed == len(self._channels)

    @property
    def _silent_at(self) -> float:
        """When the silence has lasted so long that the server must be asked."""
        return self._heard + (2 if self._asked else 1) * SILENCE

    def _begin(self) -> None:
        """Reset the state: the next message comes over a new connection."""
        self._confirmed = 0
        self._heard = monotonic()
        self._asked = False

    @stepwise
    def open(self, timeout: float = 10.0) -> Steps[None]:
        """Subscribe now; events after the return will be received.

        Raises ConnectionLost if the server has not confirmed it in `timeout` seconds.
        """
        deadline = monotonic() + timeout
        while not self._subscribed:
            left = deadline - monotonic()
            if left <= 0:
                raise ConnectionLost(f"No subscription within {timeout:g} s")
            yield from self._step(left)

    @stepwise
    def next(self, timeout: float | None = None) -> Steps[Event | None]:
        """Wait for the next event; return None if none came in `timeout` seconds."""
        deadline = math.inf if timeout is None else monotonic() + timeout
        while not self._is_closed:
            left = deadline - monotonic()
            event = yield from self._step(max(0.0, left))
            if event is not None or left <= 0:
                return event
        return None

    def _step(self, seconds: float) -> Steps[Event | None]:
        """Do one step towards the next event, in at most `seconds`."""
        event = None
        try:
            if self._broken:
                yield self._hang_up()
            self._broken = True
            if self._pubsub.channels:
                # A limit of zero would not even look at what has arrived.
                wait = min(seconds, self._silent_at - monotonic())
                message = yield self._pubsub.get_message(timeout=max(0.01, wait))
                event = self._read(message)
                yield from self._check_silence()
            else:
                yield self._pubsub.subscribe(*self._channels)
            self._broken = False
        except FAILURES as error:
            if not self._is_closed:
                yield self._hang_up(error)
                if is_lasting(error):
                    raise to_qless_error(error) from error
                yield self._pause(min(seconds, next(self._waits)))
        if self._is_closed:
            yield self._hang_up()
        return event

    def _check_silence(self) -> Steps[None]:
        """Ping the server when it is silent; raise if it stays silent."""
        silent = monotonic() - self._heard
        if self._asked:
            if silent >= 2 * SILENCE:
                raise RedisTimeoutError(f"silence for {silent:.0f} s")
        elif silent >= SILENCE:
            self._asked = True
            yield self._pubsub.ping()

    def _hang_up(self, error: BaseException | None = None) -> Any:
        self._begin()
        self._broken = False
        connection = self._pubsub.connection
        if error is not None and hasattr(connection, "look_again"):
            # In a cluster another node may have the channels by now.
            connection.look_again()
        return self._disconnect() if connection else self._pause(0)

    def _read(self, message: dict[str, Any] | None) -> Event | None:
        """Return the event that a message stands for, if any."""
        if message is None:
            return None
        self._heard = monotonic()
        self._asked = False
        if message["type"] == "subscribe":
            self._confirmed += 1
            if self._subscribed:
                self._waits = backoff()
                again, self._again = self._again, True
                return Event(RECONNECTED) if again else None
        if message["type"] != "message":
            return None
        return read_event(
            message["channel"].removeprefix(self._prefix), message["data"]
        )


def read_event(channel: str, text: str) -> Event | None:
    """Read a message of a channel (without its prefix); None for other programs' ones."""
    if channel in TRACKED:
        return Event(channel, channel, text, {"jid": text})
    try:
        details = json.loads(text)
    except ValueError:
        return None
    if not isinstance(details, dict):
        return None
    jid = str(details.get("jid") or "")
    return Event(str(details.get("event")), channel, jid, details)


class Subscriber(BaseSubscriber, Blocking):
    """Receives events in one thread; another thread may close it.

    Iterating yields events until it is closed. Raises NotPermitted or NotAuthenticated
    if the server refuses; a lost connection is made again, for as long as it takes.
    `pool` is a pool of redis-py.
    """

    def __init__(
        self,
        pool: Any,
        prefix: str,
        channels: Sequence[str],
        *,
        sharded: bool = False,
    ) -> None:
        kind = ShardedPubSub if sharded else redis.client.PubSub
        super().__init__(kind(pool), prefix, channels)
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

    def _drive(self, steps: Steps[T]) -> T:
        with self._reading:
            return drive(steps)

    @property
    def _is_closed(self) -> bool:
        return self._closed.is_set()

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def _disconnect(self) -> None:
        self._pubsub.connection.disconnect()


class AsyncSubscriber(BaseSubscriber, Awaiting):
    """Receives events in one task; another task may close it. See Subscriber."""

    def __init__(
        self,
        pool: Any,
        prefix: str,
        channels: Sequence[str],
        *,
        sharded: bool = False,
    ) -> None:
        kind = AsyncShardedPubSub if sharded else redis.asyncio.client.PubSub
        super().__init__(kind(pool), prefix, channels)
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
