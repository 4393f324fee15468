"""Puts that are acknowledged when replicas have them, too.

WAIT follows the call on the same connection, in one round trip. It counts the replicas that
have all that this connection wrote; a repeated request writes its reply again, so that this
is true on a new connection as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from .connection import pack_command
from .exceptions import NotReplicated, StaleRequest
from .monotonic import monotonic
from .request import Command, Request, Steps
from .retry import FAILURES, repeat_request

if TYPE_CHECKING:
    from .connection import BaseConnection

T = TypeVar("T")

#: The commands that wait: all by which jobs, or what makes jobs, come into being. What is
#: done with jobs later does not: if it is lost, they run again, which they may at any time.
REPLICATED = frozenset(
    {
        *("put", "put.many", "requeue", "spawn", "depends", "seal", "push"),
        *("workflow.put", "workflow.release"),
        *("recur", "schedule.set", "schedule.update", "schedule.run", "deliver"),
    }
)

#: Seconds in which a request can be repeated: the server keeps its reply for 600.
REPEATABLE = 540.0


class Replication(NamedTuple):
    """How many replicas must have a put, and how long to wait for them."""

    replicas: int
    seconds: float


class Unconfirmed(NamedTuple):
    """A request that was carried out, and that too few replicas have confirmed."""

    command: Command[Any]
    request_id: str
    #: When it was sent (monotonic).
    sent: float


def execute(client: Any, command: Command[T]) -> Steps[T]:
    """Send a command and wait for replicas. Raises NotReplicated."""
    return _execute(client, command, None)


def _execute(client: Any, command: Command[T], again: Unconfirmed | None) -> Steps[T]:
    pool, script, wanted = client.pool, client.script, client.replication
    connection = yield pool.acquire(client.patience)
    sent = again.sent if again else monotonic()
    try:
        request_id = again.request_id if again else connection.next_request()

        def exchange() -> Steps[Any]:
            message = script.request(command, request_id)
            return _exchange(connection, message, wanted)

        try:
            answer = yield from exchange()
        except FAILURES as error:
            answer = yield from repeat_request(
                *(error, connection, script, command, request_id, client.patience),
                exchange=exchange,
            )
        reply, replicas, refusal = answer
        result = command.read(reply)
        if replicas >= wanted.replicas:
            return result
        if not again:
            # The request may be repeated, which a newer one would forbid.
            connection.renew_client_id()
        if client.follows_primary:
            # It may be a former primary, cut off from its replicas.
            yield connection.leave()
    finally:
        pool.release(connection)
    left = (Unconfirmed(command, request_id, sent),)
    raise NotReplicated(
        refusal
        or f"{replicas} of {wanted.replicas} replicas confirmed it within "
        f"{wanted.seconds:g} s",
        client=client,
        replicas=replicas,
        result=result,
        unconfirmed=left,
    )


def _exchange(
    connection: BaseConnection, message: bytes, wanted: Replication
) -> Steps[tuple[Any, int, str]]:
    """Return the reply, how many replicas have it, and why that is not known."""
    wait = pack_command("WAIT", wanted.replicas, max(1, int(wanted.seconds * 1000)))
    yield from connection.send(message + wait)
    reply, replicas = yield from connection.receive(None, wanted.seconds)
    if isinstance(reply, ResponseError):
        raise reply
    if isinstance(replicas, NoPermissionError):
        return reply, 0, str(replicas)
    if isinstance(replicas, ResponseError):
        # It has become a replica meanwhile: the call is repeated elsewhere.
        yield connection.hang_up()
        raise RedisConnectionError(str(replicas))
    return reply, int(replicas), ""


def repeat(client: Any, late: NotReplicated) -> Steps[Any]:
    """Send unconfirmed requests again, and wait for the replicas again.

    Returns the result; raises NotReplicated for those that are still unconfirmed.
    """
    lates: list[NotReplicated] = []
    for each in late.unconfirmed:
        age = monotonic() - each.sent
        if age > REPEATABLE:
            raise StaleRequest(
                f"{each.command.name} was sent {age:.0f} s ago: after {REPEATABLE:g} s it "
                "cannot be repeated. Look the job up instead"
            )
        try:
            yield from _execute(client, each.command, each)
        except NotReplicated as error:
            lates.append(error)
    if lates:
        left = combined(lates, late.result)
        left.handles = late.handles
        raise left
    return late.result


def combined(lates: list[NotReplicated], result: Any) -> NotReplicated:
    """Return one error for all these."""
    first = lates[0]
    return NotReplicated(
        first.detail,
        client=first.client,
        replicas=min(late.replicas for late in lates),
        result=result,
        unconfirmed=tuple(each for late in lates for each in late.unconfirmed),
    )


class LateReplicas:
    """A client that goes on where replicas are late, and tells it at the end."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lates: list[NotReplicated] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def run(self, request: Request[Any]) -> Any:
        """Send a request and return its result, or an awaitable of it."""
        return self._client._drive(self.steps(request))

    def steps(self, request: Request[T]) -> Steps[T]:
        """Send a request and return its result."""
        try:
            result: T = yield from self._client.steps(request)
        except NotReplicated as error:
            self._lates.append(error)
            result = error.result
        return result

    def check(self, handles: Any = (), result: Any = None) -> None:
        """Raise NotReplicated, with these handles, if replicas were late."""
        if self._lates:
            error = combined(self._lates, result)
            error.handles = tuple(handles)
            raise error
