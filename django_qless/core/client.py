"""The clients: one blocking, one for asyncio, with the same commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from . import arguments
from .calls import Awaiting, Blocking, Call, Calls, Request
from .commands import Commands
from .endings import Kind, afollow, follow, steps_to_end
from .events import AsyncSubscriber, Subscriber
from .exceptions import BadArgument, ConnectionLost, QlessError
from .job import AsyncJob, Job
from .lanes import AsyncLane, AsyncLanes, Lane, Lanes
from .loops import LoopLanes
from .namespace import PATIENCE, Namespace, kind_of
from .needs import afollow as afollow_needs
from .needs import follow as follow_needs
from .needs import steps_to_needs
from .queue import AsyncQueue, Queue
from .recurring import AsyncRecurringJob, RecurringJob
from .retry import FAILURES, HangUp, Steps, insist, translated
from .script import LIBRARY_PREFIX, Engine, Library
from .server_info import ServerInfo, read_info
from .waiting import After, AsyncAfter, block_seconds
from .wire import command

T = TypeVar("T")


class Client(Namespace, Commands[Job, RecurringJob], Blocking):
    """The commands of one namespace on one server, for any number of threads.

    `redis` is a redis.Redis of redis-py 5 to 8, whatever its options: connections are
    made like its own, unless `timeout` gives other seconds for connecting and for each
    answer. `engine` is "function", "script", or "auto": functions if possible.
    Safe to use after a fork.
    """

    redis: Redis

    def __init__(
        self,
        redis: Redis,
        prefix: str = "ql:",
        engine: Engine = "auto",
        *,
        patience: float = PATIENCE,
        library: Library | None = None,
        timeout: float | None = None,
    ) -> None:
        if not isinstance(redis, Redis):
            raise BadArgument(f"Client needs a redis.Redis, not {kind_of(redis)}")
        super().__init__(
            redis, prefix, engine, patience=patience, library=library, timeout=timeout
        )
        self._lanes = Lanes(self._connect, self._most, self.patience)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def run(self, request: Request[T]) -> T:
        """Make a call and return its result; raise a QlessError.

        Repeats it for `patience` seconds if the server is lost or not ready.
        """
        if type(request) is not Call:
            return self._run_parts(request)
        lanes = self._lanes
        lane = lanes.take()
        try:
            request_id = "" if request.kind == "read" else lane.next_request()
            try:
                reply = lane.exchange(self.script.request(request, request_id))
            except FAILURES as error:
                steps = insist(error, self.script, request, request_id, self.patience)
                reply = self._follow(lane, steps)
        finally:
            lanes.give(lane)
        decode = request.decode
        result: T = reply if decode is None else decode(reply)
        return result

    def blpop(self, keys: Sequence[str], seconds: float) -> tuple[str, str] | None:
        """Wait for an element of these lists: which, and the element; None if none came.

        For a worker without jobs, with what settle told it. A lost connection ends the
        wait: ask again. Waits longer than the connection's socket_timeout if need be.
        """
        seconds = block_seconds(seconds)
        lane = self._lanes.take()
        try:
            request = command(
                "BLPOP", *arguments.all_known("keys", keys, least=1), seconds
            )
            reply = lane.exchange(request, blocking=seconds)
        except FAILURES as error:
            reply = _no_element(error)
        finally:
            self._lanes.give(lane)
        return (reply[0], reply[1]) if reply else None

    def after(
        self, keys: Sequence[str], seconds: float, request: Request[T]
    ) -> After[T]:
        """Return a wait as blpop's, with a call behind it that is made at its end.

        Its `run()` waits and returns the call's result: one round trip. The request must
        write, and fit into one call.
        """
        return After(self, keys, seconds, request)

    def await_ended(
        self,
        ids: Sequence[str],
        seconds: float | None = None,
        kind: Kind = "job",
    ) -> dict[str, str]:
        """Wait until all of these jobs (or workflows) have ended; return their states.

        complete, failed, canceled (of workflows), or "" for what does not exist. After
        `seconds` (None: never) those that have not ended are missing.
        """
        return follow(self, steps_to_end(kind, ids, seconds))

    def needs(self, jid: str) -> list[str]:
        """Return all jobs that a job was ever made to depend on, in order.

        Each is followed by those that it has spawned; complete ones are among them.
        """
        return follow_needs(self, steps_to_needs(jid))

    def events(self, *channels: str) -> Subscriber:
        """Return a subscriber to channels: "log" (all events), "w:<worker>", or an event
        of tracked jobs, such as "completed"."""
        return Subscriber(self._connect, self.prefix, self._channels(channels))

    def queue(self, name: str) -> Queue:
        """Return one queue."""
        return Queue(self, arguments.known("queue", name))

    def server_info(self) -> ServerInfo:
        """Return what the server says of itself (INFO): its version, memory and so on.

        Raises NotPermitted if the server's user may not ask.
        """
        return read_info(self._ask("INFO"))

    def libraries(self) -> list[str]:
        """Return the names of this package's libraries of functions, of all versions.

        Raises NotPermitted if the server's user may not ask.
        """
        reply = self._ask("FUNCTION", "LIST", "LIBRARYNAME", f"{LIBRARY_PREFIX}*")
        return sorted(
            str(library[library.index("library_name") + 1]) for library in reply
        )

    def remove_library(self, name: str) -> None:
        """Remove a library of functions; what still calls it loads it again."""
        self._ask("FUNCTION", "DELETE", name)

    def _ask(self, *words: str) -> Any:
        """Send a command of the server's own, once; return its reply."""
        lane = self._lanes.take()
        try:
            return lane.exchange(command(*words))
        except FAILURES as error:
            raise translated(error) from error
        finally:
            self._lanes.give(lane)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._lanes.close()

    def _job(self, members: dict[str, Any]) -> Job:
        job: Job = Job.read(self, members)
        return job

    def _recurring(self, members: dict[str, Any]) -> RecurringJob:
        recurring: RecurringJob = RecurringJob.read(self, members)
        return recurring

    def _run_parts(self, request: Request[T]) -> T:
        assert isinstance(request, Calls)
        results: list[Any] = []
        try:
            for part in request.parts:
                results.append(self.run(part))
        except QlessError as error:
            error.done = sum(request.sizes[: len(results)])
            raise
        result: T = request.combine(results)
        return result

    def _follow(self, lane: Lane, steps: Steps) -> Any:
        """Do what the steps say until they end, and return their result."""
        try:
            step = next(steps)
            while True:
                try:
                    outcome = None
                    if isinstance(step, bytes):
                        outcome = lane.exchange(step)
                    elif isinstance(step, HangUp):
                        lane.hang_up()
                    else:
                        time.sleep(step)
                except FAILURES as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as end:
            return end.value


class AsyncClient(Namespace, Commands[AsyncJob, AsyncRecurringJob], Awaiting):
    """The commands of one namespace on one server, for asyncio.

    As Client, with a redis.asyncio.Redis. Each event loop has connections of its own.
    """

    redis: AsyncRedis

    def __init__(
        self,
        redis: AsyncRedis,
        prefix: str = "ql:",
        engine: Engine = "auto",
        *,
        patience: float = PATIENCE,
        library: Library | None = None,
        timeout: float | None = None,
    ) -> None:
        if not isinstance(redis, AsyncRedis):
            raise BadArgument(
                f"AsyncClient needs a redis.asyncio.Redis, not {kind_of(redis)}"
            )
        super().__init__(
            redis, prefix, engine, patience=patience, library=library, timeout=timeout
        )
        self._loops = LoopLanes(
            lambda: AsyncLanes(self._connect, self._most, self.patience)
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def run(self, request: Request[T]) -> T:
        """Make a call and return its result; raise a QlessError.

        Repeats it for `patience` seconds if the server is lost or not ready.
        """
        if type(request) is not Call:
            return await self._run_parts(request)
        lanes = self._lanes()
        lane = await lanes.take()
        try:
            request_id = "" if request.kind == "read" else lane.next_request()
            try:
                reply = await lane.exchange(self.script.request(request, request_id))
            except FAILURES as error:
                steps = insist(error, self.script, request, request_id, self.patience)
                reply = await self._follow(lane, steps)
        finally:
            lanes.give(lane)
        decode = request.decode
        result: T = reply if decode is None else decode(reply)
        return result

    async def blpop(
        self, keys: Sequence[str], seconds: float
    ) -> tuple[str, str] | None:
        """Wait for an element of these lists: which, and the element; None if none came.

        See Client.blpop.
        """
        seconds = block_seconds(seconds)
        lanes = self._lanes()
        lane = await lanes.take()
        try:
            request = command(
                "BLPOP", *arguments.all_known("keys", keys, least=1), seconds
            )
            reply = await lane.exchange(request, blocking=seconds)
        except FAILURES as error:
            reply = _no_element(error)
        finally:
            lanes.give(lane)
        return (reply[0], reply[1]) if reply else None

    def after(
        self, keys: Sequence[str], seconds: float, request: Request[T]
    ) -> AsyncAfter[T]:
        """Return a wait with a call behind it: see Client.after."""
        return AsyncAfter(self, keys, seconds, request)

    async def await_ended(
        self,
        ids: Sequence[str],
        seconds: float | None = None,
        kind: Kind = "job",
    ) -> dict[str, str]:
        """Wait until all of these jobs (or workflows) have ended; see Client."""
        return await afollow(self, steps_to_end(kind, ids, seconds))

    async def needs(self, jid: str) -> list[str]:
        """Return all jobs that a job was ever made to depend on; see Client.needs."""
        return await afollow_needs(self, steps_to_needs(jid))

    def events(self, *channels: str) -> AsyncSubscriber:
        """Return a subscriber to channels; see Client.events."""
        return AsyncSubscriber(self._connect, self.prefix, self._channels(channels))

    def queue(self, name: str) -> AsyncQueue:
        """Return one queue."""
        return AsyncQueue(self, arguments.known("queue", name))

    async def server_info(self) -> ServerInfo:
        """Return what the server says of itself (INFO); see Client.server_info."""
        lanes = self._lanes()
        lane = await lanes.take()
        try:
            return read_info(await lane.exchange(command("INFO")))
        except FAILURES as error:
            raise translated(error) from error
        finally:
            lanes.give(lane)

    async def aclose(self) -> None:
        """Close this event loop's connections that are not in use."""
        await self._lanes().close()

    def _job(self, members: dict[str, Any]) -> AsyncJob:
        job: AsyncJob = AsyncJob.read(self, members)
        return job

    def _recurring(self, members: dict[str, Any]) -> AsyncRecurringJob:
        recurring: AsyncRecurringJob = AsyncRecurringJob.read(self, members)
        return recurring

    def _lanes(self) -> AsyncLanes:
        return self._loops.of_running_loop()

    async def _run_parts(self, request: Request[T]) -> T:
        assert isinstance(request, Calls)
        results: list[Any] = []
        try:
            for part in request.parts:
                results.append(await self.run(part))
        except QlessError as error:
            error.done = sum(request.sizes[: len(results)])
            raise
        result: T = request.combine(results)
        return result

    async def _follow(self, lane: AsyncLane, steps: Steps) -> Any:
        """Do what the steps say until they end, and return their result."""
        try:
            step = next(steps)
            while True:
                try:
                    outcome = None
                    if isinstance(step, bytes):
                        outcome = await lane.exchange(step)
                    elif isinstance(step, HangUp):
                        await lane.hang_up()
                    else:
                        await asyncio.sleep(step)
                except FAILURES as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as end:
            return end.value


def _no_element(error: BaseException) -> list[str]:
    """Take a lost connection for an empty list; raise what the server refuses."""
    failure = translated(error)
    if isinstance(failure, ConnectionLost):
        return []
    raise failure from error
