"""A call as a value, what reads replies, and what lets each conversation be written once.

A command is written with the descriptor `command`. A conversation with the server (a call
and its repeats, a wait and the call behind it) is written as a generator: it does a step
and yields what came of it, `reply = yield connection.exchange(request)`. In blocking code
that is the reply, and `drive` hands it back; in asyncio code it is an awaitable, and
`adrive` awaits it first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    overload,
)

from .protocol import Argument

if TYPE_CHECKING:
    from .client import AsyncClient, Client

T = TypeVar("T")
J = TypeVar("J")  # the class of jobs: Job or AsyncJob
R = TypeVar("R")  # the class of recurring jobs
P = ParamSpec("P")

#: A conversation: each step yields what it has returned, a value or an awaitable of it.
Steps: TypeAlias = Generator[Any, Any, T]

#: What a call may do: read, write (refused when Redis is full), drain (never refused).
Kind = Literal["read", "write", "drain"]


def drive(steps: Steps[T]) -> T:
    """Go through a conversation whose steps return when they are done."""
    try:
        outcome = next(steps)
        while True:
            outcome = steps.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(steps: Steps[T]) -> T:
    """Go through a conversation whose steps return awaitables."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = await step
            except BaseException as error:  # noqa: BLE001 (a cancellation, too)
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result


class Request(Generic[T]):
    """What a client can run: a call, or several."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Call(Request[T]):
    """One call of the Lua core: what to send, and how its reply is read."""

    command: str
    args: tuple[Argument, ...]
    kind: Kind
    decode: Callable[[Any], T] | None = None


@dataclass(frozen=True, slots=True)
class Calls(Request[T]):
    """What is too much for one call: several, one after the other, and their sum."""

    parts: tuple[Call[Any], ...]
    #: Items in each part, for the message of a part that fails.
    sizes: tuple[int, ...]
    combine: Callable[[list[Any]], T]


class Blocking:
    """What answers a call when it is there: Client, and all that it hands out."""

    __slots__ = ()

    def run(self, request: Request[T]) -> T:
        """Make the call and return its result."""
        raise NotImplementedError


class Awaiting:
    """What answers a call with an awaitable: AsyncClient, and all that it hands out."""

    __slots__ = ()

    async def run(self, request: Request[T]) -> T:
        """Make the call and return its result."""
        raise NotImplementedError


class OfClient(Blocking):
    """Runs with the client that it came from."""

    __slots__ = ()
    client: Client

    def run(self, request: Request[T]) -> T:
        """Make the call with the client."""
        return self.client.run(request)


class OfAsyncClient(Awaiting):
    """Runs with the asyncio client that it came from."""

    __slots__ = ()
    client: AsyncClient

    async def run(self, request: Request[T]) -> T:
        """Make the call with the client."""
        return await self.client.run(request)


class command(Generic[P, T]):  # noqa: N801 (a decorator)
    """Makes a method that builds a call into one that makes it.

    On something Blocking, calling the method returns the result; on something Awaiting,
    an awaitable of it. Bad arguments raise at once in both.
    """

    def __init__(self, build: Callable[Concatenate[Any, P], Request[T]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> command[P, T]: ...
    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, instance: Awaiting, owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        build, run = self.build, instance.run

        def make(*args: P.args, **kwargs: P.kwargs) -> Any:
            return run(build(instance, *args, **kwargs))

        make.__doc__ = self.__doc__
        return make


class Listing(NamedTuple):
    """A part of a list of jobs, and how long the whole list is."""

    total: int
    jids: list[str]


class HandsOutJobs(Generic[J]):
    """Commands whose replies are whole jobs."""

    def _job(self, members: dict[str, Any]) -> J:
        raise NotImplementedError

    def _read_job(self, reply: str | None) -> J | None:
        return None if reply is None else self._job(json.loads(reply))

    def _read_jobs(self, reply: str) -> list[J]:
        return [self._job(members) for members in read_list(reply)]


def read_list(reply: str) -> list[Any]:
    """Read a JSON list; the server writes an empty one as {}."""
    return json.loads(reply) or []


def read_json(reply: str | None) -> Any:
    """Read JSON, or nothing."""
    return None if reply is None else json.loads(reply)


def read_listing(reply: str) -> Listing:
    """Read a total and a list of jids."""
    members = json.loads(reply)
    return Listing(members["total"], members["jobs"] or [])


def nothing(reply: Any) -> None:
    """Read a reply that says nothing."""


def split(
    command: str,
    items: Sequence[Argument],
    kind: Kind,
    decode: Callable[[Any], list[T]],
    *,
    most: int,
    head: tuple[Argument, ...] = (),
) -> Calls[list[T]]:
    """Return calls for as many items as there are, whose results are one list.

    Each has `head` before its items.
    """
    parts = [tuple(items[at : at + most]) for at in range(0, len(items), most)]
    return Calls(
        tuple(Call(command, (*head, *part), kind, decode) for part in parts),
        tuple(map(len, parts)),
        lambda results: [result for part in results for result in part],
    )
