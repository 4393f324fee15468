"""Requests with a later reply: after a wait, on demand, or at jobs' ends.

A worker without jobs blocks on lists that are fed when a job becomes ready, and then asks
for the job. Sent together, the server executes the request in the very moment in which the
wait ends: the worker wakes up with the job already reserved.

An exception from outside may interrupt a wait: that of a signal handler, or the
cancellation of a task. Then it is not known whether the server has executed the request. So
the request id stays reserved: another request under the same id gets the reply to the first
one if that was executed, and otherwise takes its place for good.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from redis.exceptions import ResponseError

from . import arguments
from .connection import pack_command
from .exceptions import BadArgument, ConnectionLost, QlessError
from .monotonic import monotonic
from .request import (
    Awaiting,
    Blocking,
    Command,
    CommandSequence,
    Request,
    Steps,
    drive,
    stepwise,
)
from .retry import FAILURES, is_lasting, repeat_request, to_qless_error
from .states import ENDED

if TYPE_CHECKING:
    from .client import BaseClient, Client
    from .connection import BaseConnection

T = TypeVar("T")


class PendingCall(Generic[T]):
    """A request of a Client that was sent; read its `result()` once.

    The server works on it while the caller does something else, and the reply waits in
    the socket. A lost reply is requested again when the result is read.
    """

    def __init__(self, client: Client, request: Request[T]) -> None:
        self._command = single(request)
        self._script, self._patience = client.script, client.patience
        self._connection = client.pool.acquire(client.patience)
        self._release = client.pool.releaser()
        self._request_id = self._connection.next_request()
        self._error: BaseException | None = None
        #: Whether the request had to be sent again.
        self.was_repeated = False
        message = self._script.request(self._command, self._request_id)
        try:
            drive(self._connection.send(message))
        except FAILURES as error:
            self._error = error
        except BaseException:
            self._release(self._connection)
            raise

    def result(self) -> T:
        """Wait for the reply and return the result; raise as Client.run does."""
        try:
            return self._command.read(drive(self._receive()))
        finally:
            self._release(self._connection)

    def _receive(self) -> Steps[Any]:
        try:
            if self._error:
                raise self._error
            (reply,) = yield from self._connection.receive(None)
            if isinstance(reply, ResponseError):
                raise reply
        except FAILURES as error:
            self.was_repeated = True
            return (
                yield from repeat_request(
                    error,
                    self._connection,
                    self._script,
                    self._command,
                    self._request_id,
                    self._patience,
                )
            )
        return reply


class BaseAfter(Generic[T]):
    """A wait that is followed by a request: `run()` it once."""

    def __init__(
        self,
        client: BaseClient[Any],
        keys: Sequence[str],
        seconds: float,
        request: Request[T],
    ) -> None:
        self._connection: BaseConnection | None = None
        self._client = client
        self._command = single(request)
        self._seconds = block_seconds(seconds)
        self._wait = pack_command(
            "BLPOP", *arguments.existing_names("keys", keys, least=1), self._seconds
        )
        self._releaser: Any = None
        self._request_id = ""
        self._replies: list[Any] = []
        #: Whether an element came; if not, time was up or the connection was lost.
        self.announced = False
        #: The server's refusal of the wait itself.
        self.refusal: QlessError | None = None

    def __del__(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Release the connection of an interrupted wait; no `run_instead` will follow."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._releaser(connection)

    @stepwise
    def run(self) -> Steps[T]:
        """Wait for an element, execute the request and return its result.

        Raises as Client.run does. After an exception from outside, and after a
        ConnectionLost, `run_instead` tells what the server did.
        """
        return (yield from self.steps())

    @stepwise
    def run_instead(self, request: Request[T]) -> Steps[T]:
        """Return the first request's result if it was executed, else that of `request`.

        The first one can never be executed afterwards. Both must have results of the same
        kind.
        """
        return (yield from self.steps_instead(request))

    def steps(self) -> Steps[T]:
        """Return the steps of `run`."""
        if self._request_id:
            raise RuntimeError("a wait can run only once")
        pool = self._client.pool
        connection = yield pool.acquire(self._client.patience)
        self._connection, self._releaser = connection, pool.releaser()
        self._request_id = connection.next_request()
        message = self._client.script.request(self._command, self._request_id)

        def exchange() -> Steps[Any]:
            yield from connection.send(self._wait + message)
            wait, reply = yield from connection.receive(self._seconds, None)
            if isinstance(wait, ResponseError) and is_lasting(wait):
                self.refusal = to_qless_error(wait)
            else:
                self.announced = bool(wait) and not isinstance(wait, ResponseError)
            if isinstance(reply, ResponseError):
                raise reply
            return reply

        return (yield from self._finish(exchange(), self._command))

    def steps_instead(self, request: Request[T]) -> Steps[T]:
        """Return the steps of `run_instead`."""
        if self._replies:
            return self._result()
        connection, command = self._connection, single(request)
        if connection is None:
            return (yield from self._client.steps(command))
        message = self._client.script.request(command, self._request_id)

        def exchange() -> Steps[Any]:
            yield connection.hang_up()
            return (yield from connection.exchange(message))

        return (yield from self._finish(exchange(), command))

    def _finish(self, exchange: Steps[Any], command: Command[Any]) -> Steps[T]:
        """Repeat the command if the exchange fails; note the reply, return the result."""
        connection = self._connection
        assert connection is not None
        try:
            try:
                reply = yield from exchange
            except FAILURES as error:
                reply = yield from repeat_request(
                    error,
                    connection,
                    self._client.script,
                    command,
                    self._request_id,
                    self._client.patience,
                )
        except QlessError as error:
            # Without an answer the request id stays reserved.
            if not isinstance(error, ConnectionLost):
                self.abandon()
            raise
        self._replies.append(reply)
        return self._result()

    def _result(self) -> T:
        self.abandon()
        result: T = self._command.read(self._replies[0])
        return result


class After(BaseAfter[T], Blocking):
    """A wait that is followed by a request, of a Client."""


class AsyncAfter(BaseAfter[T], Awaiting):
    """A wait that is followed by a request, of an AsyncClient."""


def single(request: Request[T]) -> Command[T]:
    """Return the only command of a request; raise BadArgument for several."""
    if isinstance(request, CommandSequence) and len(request.parts) == 1:
        request = request.parts[0]
    if not isinstance(request, Command):
        raise BadArgument("the request does not fit into one call: ask for less")
    if request.kind == "read":
        raise BadArgument(f"{request.name} only reads: it has no request id")
    return request


def block_seconds(seconds: object) -> int | float:
    """Return a number of seconds to block, which must be above 0."""
    if arguments.number("seconds", seconds) <= 0:
        raise BadArgument(
            f"seconds must be above 0, not {seconds}: 0 would be for ever"
        )
    return arguments.number("seconds", seconds)


# Waiting until jobs or workflows have ended: the waiter registers its own list with the
# core, which feeds it when one ends. The waiter blocks on that list and then reads the
# states, both in one round trip. Every ten seconds it reads them all the same: other clients
# (with an original copy of the core, say) end jobs without feeding the list.
#
# Of several, only the first that has not ended is watched: the states of those behind it are
# read when it has. So waiting for thousands costs one read of each, and one wake-up for each
# that the others wait behind.

EndedKind = Literal["job", "workflow"]

#: Seconds that one blocking command takes at most.
LOOK_AGAIN = 10.0

# How many are asked about in one command.
_PART = 250

# Servers older than 7 take less for "for ever".
_SHORTEST = 0.01


class Watch(NamedTuple):
    """The list to block on, and the states of the first jobs or workflows."""

    key: str
    states: list[str]


def await_ended(
    client: Any, kind: EndedKind, ids: Sequence[str], seconds: float | None
) -> Steps[dict[str, str]]:
    """Wait until all of these have ended, or time is up.

    Returns the states of those that have ended; "" for what does not exist.
    """
    waiter = secrets.token_urlsafe(12)
    seconds = arguments.timeout(seconds)
    deadline = None if seconds is None else monotonic() + seconds
    left = list(dict.fromkeys(arguments.existing_names("ids", ids, most=sys.maxsize)))
    states: dict[str, str] = {}
    watch = None
    while left:
        pause = LOOK_AGAIN if deadline is None else deadline - monotonic()
        if pause <= 0:
            break
        part = left[:_PART]
        command = _await(waiter, LOOK_AGAIN, kind, part)
        if watch is None:
            watch = yield from client.steps(command)
        else:
            seconds = max(_SHORTEST, min(pause, LOOK_AGAIN))
            watch = yield from _block(client.after([watch.key], seconds, command))
        states.update(zip(part, watch.states, strict=False))
        left = left[len(watch.states) :]
        if len(watch.states) == len(part):
            watch = None  # Nothing is watched now.
    for start in range(0, len(left), _PART):
        part = left[start : start + _PART]
        watch = yield from client.steps(_await(waiter, 0, kind, part))
        states.update(
            (id_, state)
            for id_, state in zip(part, watch.states, strict=True)
            if not state or state in ENDED
        )
    return states


def time_left(timeout: float | None) -> Iterator[float | None]:
    """Yield how long to wait still (None: for ever), until time is up.

    More than once only if a job goes on after its end: put again, say.
    """
    timeout = arguments.timeout(timeout)
    if timeout is None:
        while True:
            yield None
    deadline = monotonic() + timeout
    left = timeout
    while left > 0:
        yield left
        left = deadline - monotonic()
    if timeout <= 0:
        yield 0


def _block(after: Any) -> Steps[Watch]:
    try:
        watch: Watch = yield from after.steps()
    finally:
        after.abandon()
    if after.refusal is not None:
        # The server refuses the wait: we would ask without pause.
        raise after.refusal
    return watch


def _await(
    waiter: str, seconds: float, kind: EndedKind, ids: Sequence[str]
) -> Command[Watch]:
    return Command("await", (waiter, seconds, kind, *ids), "drain", _read_watch)


def _read_watch(reply: list[str]) -> Watch:
    key, *states = reply
    return Watch(key, states)


def read_needs(client: Any, jid: str) -> Steps[list[str]]:
    """Return the jids that a job depended on, each followed by its spawned jobs."""
    found: dict[str, None] = {}
    name, jid = "needs", arguments.existing("jid", jid)
    # Lists still to be read, the next last: a command, the job that it is about, an offset.
    lists: list[tuple[str, str, int]] = [(name, jid, 0)]
    while lists:
        name, owner, offset = lists.pop()
        args = (owner, offset, arguments.MOST_ITEMS)
        page = yield from client.steps(Command(name, args, "read", _read_page))
        for index, (job, spawned) in enumerate(page):
            new = job not in found
            found[job] = None
            if spawned and new:
                lists.append((name, owner, offset + index + 1))
                lists.append(("offspring", job, 0))
                break
        else:
            if len(page) == arguments.MOST_ITEMS:
                lists.append((name, owner, offset + len(page)))
    return list(found)


def _read_page(reply: list[str | int]) -> list[tuple[str, int]]:
    """Read jids from a list, each with the number of its spawned jobs."""
    return [
        (str(jid), int(number))
        for jid, number in zip(reply[::2], reply[1::2], strict=True)
    ]
