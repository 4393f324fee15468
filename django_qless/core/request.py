"""Requests to the Lua core as values, and methods written once for both clients.

A method that talks to the server is written as a generator of steps: it does one thing and
yields the outcome, `reply = yield raw.read_response()`. In blocking code that is the reply,
and `drive` hands it back; in asyncio code it is an awaitable, and `adrive` awaits it first.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
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

from . import arguments
from .exceptions import BadArgument
from .protocol import Argument

if TYPE_CHECKING:
    from .client import AsyncClient, Client

T = TypeVar("T")
J = TypeVar("J")  # the class of jobs: Job or AsyncJob
P = ParamSpec("P")
M = TypeVar("M", bound="ClientMethod[Any, Any]")

#: A generator of steps: each yields its outcome, a value or an awaitable of it.
Steps: TypeAlias = Generator[Any, Any, T]

#: What a command may do: read, write (refused when Redis is full), drain (never refused).
Kind = Literal["read", "write", "drain"]


if sys.version_info >= (3, 12):
    mark_coroutine_function = inspect.markcoroutinefunction
else:

    def mark_coroutine_function(function: Any) -> None:
        """Mark a function as returning a coroutine, for asyncio.iscoroutinefunction."""
        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]


def drive(steps: Steps[T]) -> T:
    """Run steps to their end, handing each outcome to the next; return the result."""
    outcome = None
    try:
        while True:
            outcome = steps.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(steps: Steps[T]) -> T:
    """Run steps whose outcomes are awaitables."""
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
    """One command, or a sequence of them: the argument of Client.run."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Command(Request[T]):
    """A command to the Lua core, and the reader of its reply."""

    name: str
    args: tuple[Argument, ...]
    kind: Kind
    decode: Callable[[Any], T] | None = None
    #: The id of its request, if its connection is not to draw one. `once:<id>` is carried out
    #: once, however late it is repeated: the server keeps the reply for seven days.
    request_id: str = ""

    def read(self, reply: Any) -> T:
        """Return the result that a reply stands for."""
        result: T = reply if self.decode is None else self.decode(reply)
        return result


@dataclass(frozen=True, slots=True)
class CommandSequence(Request[T]):
    """Commands sent one after the other, because one would be too large."""

    parts: tuple[Command[Any], ...]
    #: Items in each part, for the message of a part that fails.
    sizes: tuple[int, ...]
    combine: Callable[[list[Any]], T]
    #: What undoes the parts that were carried out, if the server refuses another one: it is
    #: sent until its result says that nothing is left.
    undo: Command[int] | None = None


def single(request: Request[T]) -> Command[T]:
    """Return the only command of a request; raise BadArgument for several."""
    if isinstance(request, CommandSequence) and len(request.parts) == 1:
        request = request.parts[0]
    if not isinstance(request, Command):
        raise BadArgument("the request does not fit into one call: ask for less")
    return request


class Blocking:
    """Base of classes whose methods block until the reply is there."""

    __slots__ = ()
    _drive = staticmethod(drive)


class Awaiting:
    """Base of classes whose methods return awaitables."""

    __slots__ = ()
    _drive = staticmethod(adrive)


class OfClient(Blocking):
    """Base of objects that send their requests with a Client."""

    __slots__ = ()
    client: Client

    def run(self, request: Request[T]) -> T:
        """Send a request with the client."""
        return self.client.run(request)


class OfAsyncClient(Awaiting):
    """Base of objects that send their requests with an AsyncClient."""

    __slots__ = ()
    client: AsyncClient

    async def run(self, request: Request[T]) -> T:
        """Send a request with the client."""
        return await self.client.run(request)


class ClientMethod(Generic[P, T]):
    """A method written once: it blocks on Blocking, and is awaited on Awaiting objects."""

    _runner: str
    build: Callable[..., Any]

    @overload
    def __get__(self: M, instance: None, owner: type) -> M: ...
    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, instance: Awaiting, owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        build, run = self.build, getattr(instance, self._runner)

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return run(build(instance, *args, **kwargs))

        method.__doc__ = self.__doc__
        if isinstance(instance, Awaiting):
            # Not `async def`: bad arguments raise before it is awaited.
            mark_coroutine_function(method)
        return method


class command(ClientMethod[P, T]):  # noqa: N801 (a decorator)
    """Makes a method that builds a request send it. Bad arguments raise at once."""

    _runner = "run"

    def __init__(self, build: Callable[Concatenate[Any, P], Request[T]]) -> None:
        self.build: Callable[Concatenate[Any, P], Request[T]] = build
        self.__doc__ = build.__doc__


def _bound(of: command[..., T], *attributes: str) -> Any:
    """Return a command whose first arguments are attributes of the object."""

    def build(self: Any, *args: Any, **options: Any) -> Request[T]:
        first = (getattr(self, name) for name in attributes)
        request: Request[T] = of.build(self.client, *first, *args, **options)
        return request

    signature = inspect.signature(of.build)
    client, *parameters = signature.parameters.values()
    build.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[client, *parameters[len(attributes) :]]
    )
    build.__doc__ = of.__doc__
    return command(build)


def of_jid(of: command[Concatenate[Any, P], T]) -> command[P, T]:
    """Return a command as an action of the object with this `jid`."""
    bound: command[P, T] = _bound(of, "jid")
    return bound


def of_holder(of: command[Concatenate[Any, Any, P], T]) -> command[P, T]:
    """Return a command as an action of the object with this `jid` and `token`."""
    bound: command[P, T] = _bound(of, "jid", "token")
    return bound


def of_name(of: command[Concatenate[Any, P], T]) -> command[P, T]:
    """Return a command as an action of the object with this `name`."""
    bound: command[P, T] = _bound(of, "name")
    return bound


class stepwise(ClientMethod[P, T]):  # noqa: N801 (a decorator)
    """Makes a method that is a generator of steps run them."""

    _runner = "_drive"

    def __init__(self, build: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.build: Callable[Concatenate[Any, P], Steps[T]] = build
        self.__doc__ = build.__doc__


class Listing(NamedTuple):
    """A part of a list of jobs, and how long the whole list is."""

    total: int
    jids: list[str]


class JobReader(Generic[J]):
    """Base of commands whose replies are whole jobs."""

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


def read_pairs(reply: list[str]) -> dict[str, str]:
    """Read a flat list of names and values."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def read_flat(names: Sequence[str], reply: list[Any]) -> list[dict[str, Any]]:
    """Read a flat list of records whose fields have these names, in this order."""
    rows = zip(*[iter(reply)] * len(names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def optional_number(text: str) -> float | None:
    """Read a number; "" is none."""
    return float(text) if text else None


def no_result(reply: Any) -> None:
    """Ignore a reply that has no content."""


def concatenate(results: list[list[Any]]) -> Any:
    """Return one list of all results."""
    return [result for part in results for result in part]


def split(
    name: str,
    label: str,
    items: Sequence[str],
    kind: Kind,
    decode: Callable[[Any], T],
    *,
    most: int = arguments.MOST_ITEMS,
    head: tuple[Argument, ...] = (),
    combine: Callable[[list[Any]], T] = concatenate,
) -> CommandSequence[T]:
    """Return commands for any number of names, each with at most `most` of them.

    Each has `head` before its names. The names are of things that may exist.
    """
    names = arguments.existing_names(label, items, most=len(items))
    parts = [names[at : at + most] for at in range(0, len(names), most)]
    return CommandSequence(
        tuple(Command(name, (*head, *part), kind, decode) for part in parts),
        tuple(map(len, parts)),
        combine,
    )
