"""The clients: one blocking, one for asyncio, with the same commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from . import arguments, replication
from .async_connection import AsyncPool
from .cluster import slot_map_of
from .commands import Commands
from .commands.queues import QueueCounts, count_all
from .commands.recurring import AsyncRecurringJob, RecurringJob
from .connection import Pool, pack_command
from .events import AsyncSubscriber, Subscriber
from .exceptions import (
    REFUSALS,
    BadArgument,
    ClusterRefused,
    ConnectionLost,
    QlessError,
    ServerBusy,
)
from .loop_pools import LoopPools
from .objects import AsyncJob, AsyncQueue, Job, Queue
from .protocol import ServerInfo, read_info
from .redis_pool import Limits, address, copy_pool, follows_primary, is_of_sentinel
from .replication import Replication
from .request import (
    Awaiting,
    Blocking,
    Command,
    CommandSequence,
    Request,
    Steps,
    adrive,
    stepwise,
)
from .retry import FAILURES, to_qless_error
from .script import LIBRARY_PREFIX, Library, Script
from .waiting import EndedKind, await_ended, read_needs

T = TypeVar("T")
R = TypeVar("R", Redis, AsyncRedis)

#: Seconds in which a request is repeated while the server does not answer.
PATIENCE = 10.0


class BaseClient(ABC, Generic[R]):
    """Common part of both clients: the server, the prefix, each exchange with it."""

    #: The kind of redis-py client that it needs, and its name.
    _needs: tuple[type[R], str]

    def __init__(
        self,
        redis: R,
        prefix: str = "ql:",
        *,
        patience: float = PATIENCE,
        library: Library | None = None,
        timeout: float | None = None,
        replication: Replication | None = None,
    ) -> None:
        kind, name = self._needs
        if not isinstance(redis, kind):
            given = f"{type(redis).__module__}.{type(redis).__qualname__}"
            raise BadArgument(f"{type(self).__name__} needs a {name}, not {given}")
        #: The redis-py client as it was given; only its settings are used.
        self.redis: R = redis
        #: The beginning of all keys.
        self.prefix = arguments.name("prefix", prefix)
        #: Seconds in which a request is repeated while the server does not answer.
        self.patience = arguments.number("patience", patience)
        #: How many replicas must have a put, and how long to wait; None: none.
        self.replication = replication
        #: Whether sentinels say where the server is.
        self.asks_sentinels = is_of_sentinel(redis)
        #: Where the namespace is in a cluster; None without a cluster.
        self.slot_map = slot_map_of(redis)
        #: Whether sentinels or the nodes of a cluster say where the server is.
        self.follows_primary = follows_primary(redis)
        self.script = Script(
            prefix,
            library or Library.default(),
            sharded=self.slot_map is not None,
        )
        self._source = partial(copy_pool, redis, timeout)
        self._open(Limits(redis))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {address(self.redis)} {self.prefix}>"

    @abstractmethod
    def _open(self, limits: Limits) -> None:
        """Make the pool, or the holder of one pool for each event loop."""

    @property
    @abstractmethod
    def pool(self) -> Pool | AsyncPool:
        """The connections."""

    def steps(self, request: Request[T]) -> Steps[T]:
        """Return the steps of `run`."""
        if type(request) is Command:
            if self.replication and replication.waits(request):
                return replication.execute(self, request)
            return self.pool.execute(request, self.script, self.patience)
        return self._steps_of_sequence(request)

    def _steps_of_sequence(self, request: Request[T]) -> Steps[T]:
        assert isinstance(request, CommandSequence)
        results: list[Any] = []
        # Replicas that are late with one part do not keep the others from being sent.
        late = replication.LateReplicas(self)
        try:
            for part in request.parts:
                results.append((yield from late.steps(part)))
        except QlessError as error:
            error.done = sum(request.sizes[: len(results)])
            if request.undo and results and isinstance(error, REFUSALS):
                with suppress(QlessError):
                    while (yield from late.steps(request.undo)):
                        pass
            raise
        result: T = request.combine(results)
        late.check(result=result)
        return result

    @stepwise
    def queues(self) -> Steps[list[QueueCounts]]:
        """Return the counts of all known queues, in the order they were first seen.

        One call for each 500 of them, so that none keeps the server from others for long: one
        may be missing if others are forgotten meanwhile.
        """
        return count_all(self)  # type: ignore[arg-type]

    @stepwise
    def bzpopmin(
        self, keys: Sequence[str], seconds: float
    ) -> Steps[tuple[str, str] | None]:
        """Wait for a member of these sorted sets; return (key, member), or None.

        For a worker without jobs, with the keys of markers that settle returned. A lost
        connection ends the wait: ask again. Waits longer than the connection's
        socket_timeout if need be.
        """
        if arguments.number("seconds", seconds) <= 0:
            raise BadArgument(
                f"seconds must be above 0, not {seconds}: 0 would be for ever"
            )
        names = arguments.existing_names("keys", keys, least=1)
        try:
            reply = yield from self._ask("BZPOPMIN", *names, seconds, blocking=seconds)
        except ConnectionLost:
            return None
        except (ServerBusy, ClusterRefused):
            if self.slot_map is None:
                raise
            return None  # The slot is on its way, or has arrived elsewhere.
        if not reply:
            return None
        key, member, _ = reply
        return key, member

    @stepwise
    def await_ended(
        self, ids: Sequence[str], seconds: float | None = None, kind: EndedKind = "job"
    ) -> Steps[dict[str, str]]:
        """Wait until all of these jobs (or workflows) have ended; return their states.

        complete, failed, canceled (of workflows), or "" for what does not exist. After
        `seconds` (None: never) those that have not ended are missing.
        """
        return await_ended(self, kind, ids, seconds)

    @stepwise
    def needs(self, jid: str) -> Steps[list[str]]:
        """Return all jobs that a job was ever made to depend on, in order.

        Each is followed by those that it has spawned, also complete ones.
        """
        return read_needs(self, jid)

    @stepwise
    def server_info(self) -> Steps[ServerInfo]:
        """Return the server's INFO: its version, memory and so on.

        Raises NotPermitted if the server's user may not ask.
        """
        return read_info((yield from self._ask("INFO")))

    @stepwise
    def wait_for_replicas(self, replicas: int, seconds: float) -> Steps[int]:
        """Return how many replicas answer WAIT within `seconds`.

        Raises NotPermitted if the server's user may not ask.
        """
        return self._ask("WAIT", replicas, int(seconds * 1000), blocking=seconds)

    @stepwise
    def libraries(self) -> Steps[list[str]]:
        """Return the names of this package's libraries of functions, of all versions.

        Raises NotPermitted if the server's user may not ask.
        """
        pattern = f"{LIBRARY_PREFIX}*"
        reply = yield from self._ask("FUNCTION", "LIST", "LIBRARYNAME", pattern)
        return sorted(
            str(library[library.index("library_name") + 1]) for library in reply
        )

    @stepwise
    def remove_library(self, name: str) -> Steps[None]:
        """Remove a library of functions; clients that still need it load it again."""
        return self._ask("FUNCTION", "DELETE", name)

    def _ask(self, *words: str | float, blocking: float | None = None) -> Steps[Any]:
        """Send a command of the server's own, once; return its reply."""
        pool = self.pool
        connection = yield pool.acquire(self.patience)
        try:
            return (yield from connection.exchange(pack_command(*words), blocking))
        except FAILURES as error:
            if self.slot_map is not None:
                yield connection.leave()
            raise to_qless_error(error) from error
        finally:
            pool.release(connection)


class Client(BaseClient[Redis], Commands[Job, RecurringJob], Blocking):
    """The commands of one namespace on one server, for any number of threads.

    `redis` is a redis.Redis of redis-py 6 to 8 with any options: connections are
    made like its own, unless `timeout` gives other seconds for connecting and for each
    answer. Safe to use after a fork.
    """

    _needs = (Redis, "redis.Redis")

    def _open(self, limits: Limits) -> None:
        self._pool = Pool(self._source, limits)

    @property
    def pool(self) -> Pool:
        """The connections."""
        return self._pool

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def run(self, request: Request[T]) -> T:
        """Send a request and return its result; raise a QlessError.

        Repeats it for `patience` seconds if the server is lost or not ready.
        """
        # As `drive` does, without a call: each request to the server comes by here.
        steps, outcome = self.steps(request), None
        try:
            while True:
                outcome = steps.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def events(self, *channels: str) -> Subscriber:
        """Return a subscriber to channels.

        "log" (all events), "w:<worker>", or an event of tracked jobs, such as "completed".
        """
        channels = channels or ("log",)
        return Subscriber(
            self._source(), self.prefix, channels, sharded=self.slot_map is not None
        )

    def queue(self, name: str) -> Queue:
        """Return one queue."""
        return Queue(self, arguments.existing("queue", name))

    def close(self) -> None:
        """Close the connections that are not in use."""
        self.pool.close()

    def _job(self, members: dict[str, Any]) -> Job:
        return Job.read(self, members)

    def _recurring(self, members: dict[str, Any]) -> RecurringJob:
        return RecurringJob.read(self, members)


class AsyncClient(
    BaseClient[AsyncRedis], Commands[AsyncJob, AsyncRecurringJob], Awaiting
):
    """The commands of one namespace on one server, for asyncio.

    As Client, with a redis.asyncio.Redis. Each event loop has its own connections.
    """

    _needs = (AsyncRedis, "redis.asyncio.Redis")

    def _open(self, limits: Limits) -> None:
        self._pools = LoopPools(lambda: AsyncPool(self._source, limits))

    @property
    def pool(self) -> AsyncPool:
        """The connections in the running event loop."""
        return self._pools.of_running_loop()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def run(self, request: Request[T]) -> T:
        """Send a request and return its result; see Client.run."""
        return await adrive(self.steps(request))

    def events(self, *channels: str) -> AsyncSubscriber:
        """Return a subscriber to channels; see Client.events."""
        channels = channels or ("log",)
        return AsyncSubscriber(
            self._source(), self.prefix, channels, sharded=self.slot_map is not None
        )

    def queue(self, name: str) -> AsyncQueue:
        """Return one queue."""
        return AsyncQueue(self, arguments.existing("queue", name))

    async def aclose(self) -> None:
        """Close this event loop's connections that are not in use."""
        await self.pool.close()

    def _job(self, members: dict[str, Any]) -> AsyncJob:
        return AsyncJob.read(self, members)

    def _recurring(self, members: dict[str, Any]) -> AsyncRecurringJob:
        return AsyncRecurringJob.read(self, members)
