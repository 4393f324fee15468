"""`captured_jobs` and `inline_jobs`: what becomes of jobs while a block, or a test, runs."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from asgiref.sync import sync_to_async

from django_qless.testing import there
from django_qless.testing.captured import CapturedJob, CapturedJobs, of_shipment
from django_qless.testing.draining import MOST_RUNS, Drain
from django_qless.testing.runs import Runs
from django_qless.testing.sending import Way

if TYPE_CHECKING:
    from django_qless.puts.outlet import Shipment

T = TypeVar("T")
AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])


# Jobs that run within each other. What is put at a greater depth runs when the job there
# has ended: a job may put the next one of a long chain, and Python's stack is not endless.
DEEPEST = 20

_depth: ContextVar[int] = ContextVar("qless_inline_depth", default=0)


class Capturing(Way):
    """Puts nothing: keeps what would have been put."""

    def __init__(self) -> None:
        self.jobs = CapturedJobs()

    def send(self, shipment: Shipment) -> None:
        """Keep the jobs."""
        # Threads may put at the same time: one call of a list's method is safe.
        self.jobs.extend(of_shipment(shipment))
        shipment.delivered()

    async def asend(self, shipment: Shipment) -> None:
        """Keep the jobs."""
        self.send(shipment)

    def send_late(self, shipment: Shipment) -> None:
        """Keep the jobs."""
        self.send(shipment)


class Inline(Way):
    """Runs what is put at once, and all that thereby becomes ready."""

    def __init__(self, *, raise_failures: bool, limit: int) -> None:
        self._raise = raise_failures
        self._limit = limit
        self.runs = Runs()

    def send(self, shipment: Shipment) -> None:
        """Put the jobs and run them."""
        shipment.send()
        self._run(shipment.alias)

    async def asend(self, shipment: Shipment) -> None:
        """Put the jobs and run them, in the thread of `sync_to_async`."""
        await shipment.asend()
        await sync_to_async(self._run)(shipment.alias)

    def send_late(self, shipment: Shipment) -> None:
        """Put the jobs and run them."""
        shipment.send_late()
        self._run(shipment.alias)

    def _run(self, alias: str) -> None:
        depth = _depth.get()
        if depth == DEEPEST:
            return
        drain = Drain(
            alias,
            until=math.inf,
            raise_failures=self._raise,
            at_once=True,
            limit=self._limit,
        )
        token = _depth.set(depth + 1)
        try:
            drain.run()
        finally:
            _depth.reset(token)
            self.runs.extend(drain.runs)


class _Block(Generic[T]):
    """A context manager, plain and asynchronous, and a decorator of functions."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> T:
        from django_qless.testing.beginning import begun

        way, seen = self._begin()
        self._stack.enter_context(begun().using(way))
        return seen

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    async def __aenter__(self) -> T:
        return self.__enter__()

    async def __aexit__(self, *exc_info: object) -> None:
        self.__exit__(*exc_info)

    def __call__(self, function: AnyCallable) -> AnyCallable:
        """Do the same around each call of a function, which may be a coroutine's."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self._copy():
                    return await function(*args, **kwargs)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self._copy():
                return function(*args, **kwargs)

        return called  # type: ignore[return-value]

    def _begin(self) -> tuple[Way, T]:
        raise NotImplementedError

    def _copy(self) -> _Block[T]:
        return type(self)()


class captured_jobs(_Block[CapturedJobs]):  # noqa: N801 (used as a function)
    """Nothing is put and nothing runs: the jobs are kept in a list, which is returned.

        with captured_jobs() as jobs:
            signup(request)
        assert [job.name for job in jobs] == ["shop.jobs.send_welcome"]

    It may be looked at inside the block, too. What is put in a transaction is there when
    that has committed, and not after a rollback. No server is needed, except to `run()`
    captured jobs.
    """

    def _begin(self) -> tuple[Way, CapturedJobs]:
        way = Capturing()
        return way, way.jobs


class inline_jobs(_Block[Runs]):  # noqa: N801 (used as a function)
    """Each job runs at once in this process; returns the list of the runs.

        with inline_jobs():
            signup(request)
        assert len(mail.outbox) == 1

    Jobs are put and run through the real core on the tests' server: arguments travel as
    JSON, rows are loaded, dependencies are kept, workflows go their way; delays are not
    waited for. What was ready before runs as well. In a transaction they run when it
    has committed.

    What a job raises is raised where it was put, and the job has failed. With
    `raise_failures=False` it is run again as often as its retries allow. Raises
    EndlessJobs where `limit` runs do not come to an end.
    """

    def __init__(self, *, raise_failures: bool = True, limit: int = MOST_RUNS) -> None:
        super().__init__()
        self._raise = raise_failures
        self._limit = limit

    def _begin(self) -> tuple[Way, Runs]:
        way = Inline(raise_failures=self._raise, limit=self._limit)
        return way, way.runs

    def _copy(self) -> inline_jobs:
        return inline_jobs(raise_failures=self._raise, limit=self._limit)


def enqueued_jobs() -> CapturedJobs:
    """Return what has been put: the jobs of the innermost `captured_jobs`.

    Outside of one: all that this test has put, captured or not, run or not, and what
    schedules and other processes have put on the tests' server. Where the core has kept
    another job (`unique`), or replaced one, only what came of it.
    """
    from django_qless.testing.beginning import begun

    outlet = begun()
    way = outlet.way_of(Capturing)
    if way is not None:
        return way.jobs
    jobs = _in_force(outlet.remembered)
    jobs.extend(there.others({job.jid for job in outlet.remembered}))
    return jobs


def _in_force(put: Iterable[CapturedJob]) -> CapturedJobs:
    jobs = CapturedJobs()
    for job in put:
        if job.handle.created is False:
            if job.put.conflict != "replace":
                continue
            jobs = jobs.where(lambda other, jid=job.jid: other.jid != jid)  # type: ignore[misc]
        jobs.append(job)
    return jobs
