"""Waiting for an announcement and making a call, in one round trip.

A worker without jobs blocks on lists that are fed when a job becomes ready, and then asks
for the job. Sent together, the server makes the call in the very moment in which the wait
ends: the worker wakes up with the job in its hands.

A wait may be broken off by an exception from outside: that of a signal handler, or the
cancellation of a task. Nobody knows then whether the server has made the call. So the
request id stays reserved: another call under the same id gets the reply to the first one
if that was made, and otherwise takes its place for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from redis.exceptions import ResponseError

from . import arguments
from .calls import Call, Calls, Request, Steps, adrive, drive
from .exceptions import BadArgument, ConnectionLost, QlessError
from .protocol import command
from .retry import FAILURES, insist, translated

if TYPE_CHECKING:
    from .client import Namespace
    from .connection import AsyncConnection, Connection

T = TypeVar("T")


class _After(Generic[T]):
    """A wait and the call behind it, for both kinds of client."""

    def __init__(
        self,
        client: Namespace[Any],
        keys: Sequence[str],
        seconds: float,
        request: Request[T],
    ) -> None:
        self._connection: Connection | AsyncConnection | None = None
        self._client = client
        self._call = single(request)
        self._seconds = block_seconds(seconds)
        self._wait = command(
            "BLPOP", *arguments.all_known("keys", keys, least=1), self._seconds
        )
        self._give_back: Callable[[Any], None] | None = None
        self._request_id = ""
        self._replies: list[Any] = []
        #: Whether an element came; if not, time was up or the connection was lost.
        self.announced = False
        #: What the server had against the wait itself.
        self.refusal: QlessError | None = None

    def __del__(self) -> None:
        self._release()

    def abandon(self) -> None:
        """Give back what a wait holds that was broken off; `run_instead` is not wanted."""
        self._release()

    def steps(self) -> Steps[T]:
        """Wait for an element and make the call; return the call's result."""
        if self._request_id:
            raise RuntimeError("a wait can be made only once")
        pool = self._client.pool
        connection = yield pool.take(self._client.patience)
        self._connection, self._give_back = connection, pool.giver()
        self._request_id = connection.next_request()
        try:
            try:
                replies = yield connection.exchange_two(
                    self._wait, self._bytes, self._seconds
                )
                reply = self._take_in(replies)
            except FAILURES as error:
                reply = yield from self._insist(error, connection, self._call)
        except QlessError as error:
            self._give_up(error)
            raise
        return self._settle(reply)

    def steps_instead(self, request: Request[T]) -> Steps[T]:
        """Return the result of the call if it was made, else that of `request`."""
        if self._replies:
            return self._result()
        connection, call = self._connection, single(request)
        if connection is None:
            return (yield from self._client.steps(call))
        try:
            try:
                yield connection.hang_up()
                message = self._client.script.request(call, self._request_id)
                reply = yield connection.exchange(message)
            except FAILURES as error:
                reply = yield from self._insist(error, connection, call)
        except QlessError as error:
            self._give_up(error)
            raise
        return self._settle(reply)

    @property
    def _bytes(self) -> bytes:
        return self._client.script.request(self._call, self._request_id)

    def _take_in(self, replies: tuple[Any, Any]) -> Any:
        """Note how the wait ended, and return the call's reply; raise its error."""
        wait, reply = replies
        if isinstance(wait, ResponseError):
            self.refusal = translated(wait)
        else:
            self.announced = bool(wait)
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def _insist(
        self,
        error: BaseException,
        connection: Connection | AsyncConnection,
        call: Call[Any],
    ) -> Steps[Any]:
        script, patience = self._client.script, self._client.patience
        return insist(error, connection, script, call, self._request_id, patience)

    def _settle(self, reply: Any) -> T:
        """Take in that the reply is there, and return what it says."""
        self._replies.append(reply)
        return self._result()

    def _result(self) -> T:
        self._release()
        decode = self._call.decode
        reply = self._replies[0]
        result: T = reply if decode is None else decode(reply)
        return result

    def _give_up(self, error: QlessError) -> None:
        """Take in an error: without an answer, the request id stays reserved."""
        if not isinstance(error, ConnectionLost):
            self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._give_back is not None:
            self._give_back(connection)


class After(_After[T]):
    """A wait and the call behind it, by a Client: `run()` it once."""

    def run(self) -> T:
        """Wait for an element and make the call; return the call's result.

        Raises as Client.run does. After an exception from outside, and after a
        ConnectionLost, `run_instead` tells what the server did.
        """
        return drive(self.steps())

    def run_instead(self, request: Request[T]) -> T:
        """Return the result of the call if it was made, else that of `request`.

        The call can never be made afterwards. Both must have results of the same kind.
        """
        return drive(self.steps_instead(request))


class AsyncAfter(_After[T]):
    """A wait and the call behind it, by an AsyncClient: see After."""

    async def run(self) -> T:
        """Wait for an element and make the call; see After.run."""
        return await adrive(self.steps())

    async def run_instead(self, request: Request[T]) -> T:
        """Return the result of the call if it was made, else that of `request`."""
        return await adrive(self.steps_instead(request))


def single(request: Request[T]) -> Call[T]:
    """Return the only call that a request is made of; raise BadArgument for several."""
    if isinstance(request, Calls) and len(request.parts) == 1:
        request = request.parts[0]
    if not isinstance(request, Call):
        raise BadArgument("the request does not fit into one call: ask for less")
    if request.kind == "read":
        raise BadArgument(f"{request.command} only reads: it has no request id")
    return request


def block_seconds(seconds: object) -> int | float:
    """Return for how long to block, which must be above 0."""
    if arguments.number("seconds", seconds) <= 0:
        raise BadArgument(
            f"seconds must be above 0, not {seconds}: 0 would be for ever"
        )
    return arguments.number("seconds", seconds)
