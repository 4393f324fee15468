"""A queue as operators have it, and how its methods send commands of a client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django_qless.conf import DEFAULT_ALIAS
from django_qless.conf.connections import connections
from django_qless.core import AsyncQueue, Queue
from django_qless.core.request import command

P = ParamSpec("P")
T = TypeVar("T")


class blocking(command[P, T]):  # noqa: N801 (like the decorator `command`)
    """A command of the Client as a method of an operator's object."""

    client = "client"

    def __init__(self, original: command[P, T]) -> None:
        super().__init__(original.build)

    def __get__(self, instance: Any, owner: type) -> Callable[P, T]:  # type: ignore[override]
        if instance is not None:
            instance = getattr(instance, self.client)
        found: Callable[P, T] = super().__get__(instance, owner)
        return found


class awaitable(blocking[P, T]):  # noqa: N801
    """A command of the AsyncClient as a method of an operator's object."""

    client = "aclient"

    if TYPE_CHECKING:

        def __get__(  # type: ignore[override]
            self, instance: Any, owner: type
        ) -> Callable[P, Coroutine[Any, Any, T]]: ...


@dataclass(frozen=True)
class QueueHandle(Queue):
    """A queue: `counts()`, `jobs(state)`, `peek()`, `pause()`, `stats(date)`, …"""

    alias: str = DEFAULT_ALIAS
    """The alias of QLESS where it is."""

    @property
    def aclient(self) -> AsyncQueue:
        """The queue for asynchronous code."""
        return AsyncQueue(connections.aclient(self.alias), self.name)

    aput = awaitable(AsyncQueue.put)
    apop = awaitable(AsyncQueue.pop)
    apeek = awaitable(AsyncQueue.peek)
    acounts = awaitable(AsyncQueue.counts)
    ajobs = awaitable(AsyncQueue.jobs)
    alength = awaitable(AsyncQueue.length)
    astats = awaitable(AsyncQueue.stats)
    aminutes = awaitable(AsyncQueue.minutes)
    apause = awaitable(AsyncQueue.pause)
    aunpause = awaitable(AsyncQueue.unpause)
    aforget = awaitable(AsyncQueue.forget)
    aset_heartbeat = awaitable(AsyncQueue.set_heartbeat)
    aset_max_concurrency = awaitable(AsyncQueue.set_max_concurrency)
    aset_rate = awaitable(AsyncQueue.set_rate)
    aset_weight = awaitable(AsyncQueue.set_weight)
