"""Puts that are acknowledged when replicas have them, too.

WAIT follows the call on the same connection, in one round trip. It counts the replicas that
have all that this connection wrote. Every call writes its reply, so this is also true of a
put that leaves an existing job alone, on a new connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from .connection import pack_command
from .exceptions import NotReplicated
from .request import Command, Request, Steps
from .retry import FAILURES, repeat_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .connection import BaseConnection

T = TypeVar("T")

#: The commands that wait: all by which jobs, or what makes jobs, come into being, and all
#: that come out of an outbox, which is rid of them afterwards. What else is done with jobs
#: later does not: if it is lost, they run again, which they may at any time.
REPLICATED = frozenset(
    {
        *("put", "put.many", "requeue", "spawn", "depends", "push"),
        *("workflow.put", "workflow.release"),
        *("recur", "schedule.set", "schedule.update", "schedule.run"),
    }
)


class Replication(NamedTuple):
    """How many replicas must have a put, and how long to wait for them."""

    replicas: int
    seconds: float


def waits(command: Command[Any]) -> bool:
    """Return whether a command waits for replicas."""
    return command.name in REPLICATED or bool(command.request_id)


def execute(
    client: Any, command: Command[T], ahead: Command[Any] | None = None
) -> Steps[T]:
    """Send a command, and wait for replicas if the client does. Raises NotReplicated.

    `ahead` goes before it in the same round trip; what its reply is does not matter.
    """
    pool, script, wanted = client.pool, client.script, client.replication
    connection = yield pool.acquire(client.patience)
    try:
        request_id = command.request_id or connection.next_request()

        def exchange() -> Steps[Any]:
            message = script.request(command, request_id)
            first = b"" if ahead is None else script.request(ahead, "")
            return _exchange(connection, message, wanted, first)

        try:
            answer = yield from exchange()
        except FAILURES as error:
            answer = yield from repeat_request(
                *(error, connection, script, command, request_id, client.patience),
                exchange=exchange,
            )
        reply, replicas, refusal = answer
        result = command.read(reply)
        if wanted is None or replicas >= wanted.replicas:
            return result
        if client.follows_primary:
            # It may be a former primary, cut off from its replicas.
            yield connection.leave()
    finally:
        pool.release(connection)
    raise NotReplicated(
        refusal
        or f"{replicas} of {wanted.replicas} replicas confirmed it within "
        f"{wanted.seconds:g} s",
        replicas=replicas,
        result=result,
    )


def _exchange(
    connection: BaseConnection,
    message: bytes,
    wanted: Replication | None,
    ahead: bytes = b"",
) -> Steps[tuple[Any, int, str]]:
    """Return the reply, how many replicas have it, and why that is not known."""
    wait = b""
    blocking: list[float | None] = [None, None] if ahead else [None]
    if wanted is not None:
        milliseconds = max(1, int(wanted.seconds * 1000))
        wait = pack_command("WAIT", wanted.replicas, milliseconds)
        blocking.append(wanted.seconds)
    yield from connection.send(ahead + message + wait)
    replies = yield from connection.receive(*blocking)
    reply = replies[1 if ahead else 0]
    if isinstance(reply, ResponseError):
        raise reply
    if wanted is None:
        return reply, 0, ""
    replicas = replies[-1]
    if isinstance(replicas, NoPermissionError):
        return reply, 0, str(replicas)
    if isinstance(replicas, ResponseError):
        # It has become a replica meanwhile: the call is repeated elsewhere.
        yield connection.hang_up()
        raise RedisConnectionError(str(replicas))
    return reply, int(replicas), ""


def combined(lates: Sequence[NotReplicated], result: Any = None) -> NotReplicated:
    """Return one error for all these, with the handles of all."""
    error = NotReplicated(
        lates[0].detail, replicas=min(late.replicas for late in lates), result=result
    )
    error.handles = tuple(handle for late in lates for handle in late.handles)
    return error


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
