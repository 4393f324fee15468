"""A call as a value, and the descriptor that lets each command be written once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    overload,
)

from .wire import Argument

if TYPE_CHECKING:
    from .client import AsyncClient, Client

T = TypeVar("T")
P = ParamSpec("P")

#: What a call may do: read, write (refused when Redis is full), drain (never refused).
Kind = Literal["read", "write", "drain"]


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
