"""Modes of tests: `captured_jobs` and `inline_jobs`; and `enqueued_jobs`."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from asgiref.sync import sync_to_async

from django_qless import conf
from django_qless.conf.connections import connections
from django_qless.core.arguments import to_json
from django_qless.core.states import IN_QUEUE
from django_qless.job_types.handle import JobHandle
from django_qless.servers import throwaway
from django_qless.testing import dispatcher
from django_qless.testing.captured import (
    CapturedJob,
    CapturedJobs,
    Runs,
    captured,
    put_like,
)
from django_qless.testing.dispatcher import TestDispatcher
from django_qless.testing.runner import MAX_RUNS, JobRunner

if TYPE_CHECKING:
    from django_qless.core import Client, Job
    from django_qless.enqueue.dispatchable import Dispatchable

T = TypeVar("T")
AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])

# Jobs that may run within each other. Deeper ones run when the job at this depth has
# ended: each job of a long chain may enqueue the next, and Python's stack is limited.
MAX_DEPTH = 20

# Jobs looked at of each kind: as many as one call returns.
MAX_JOBS = 1000

_depth: ContextVar[int] = ContextVar("qless_inline_depth", default=0)


class CaptureDispatcher(TestDispatcher):
    """Enqueues nothing: keeps the jobs in a list."""

    def __init__(self) -> None:
        self.jobs = CapturedJobs()

    def deliver(self, dispatchable: Dispatchable, *, on_commit: bool = False) -> None:
        """Keep the jobs."""
        # Threads may enqueue at the same time: one call of a list's method is safe.
        self.jobs.extend(captured(dispatchable))
        self.jobs.pushed.extend(getattr(dispatchable, "payloads", ()))
        dispatchable.mark_enqueued()

    async def adeliver(self, dispatchable: Dispatchable) -> None:
        """Keep the jobs."""
        self.deliver(dispatchable)


class InlineDispatcher(TestDispatcher):
    """Enqueues jobs, then runs them at once, and those that become ready."""

    def __init__(self, *, raise_failures: bool, limit: int) -> None:
        self._raise_failures = raise_failures
        self._limit = limit
        self.runs = Runs()

    def deliver(self, dispatchable: Dispatchable, *, on_commit: bool = False) -> None:
        """Enqueue the jobs and run them."""
        super().deliver(dispatchable, on_commit=on_commit)
        self._run(dispatchable.alias)

    async def adeliver(self, dispatchable: Dispatchable) -> None:
        """Enqueue the jobs and run them, in the thread of `sync_to_async`."""
        await super().adeliver(dispatchable)
        await sync_to_async(self._run)(dispatchable.alias)

    def _run(self, alias: str) -> None:
        depth = _depth.get()
        if depth == MAX_DEPTH:
            return
        runner = JobRunner(
            alias,
            until=math.inf,
            raise_failures=self._raise_failures,
            retry=not self._raise_failures,
            limit=self._limit,
        )
        token = _depth.set(depth + 1)
        try:
            runner.run()
        finally:
            _depth.reset(token)
            self.runs.extend(runner.runs)


class _Mode(Generic[T]):
    """Context manager, sync and async, and decorator of functions, sync and async."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> T:
        chosen, jobs = self._begin()
        self._stack.enter_context(dispatcher.using(chosen))
        return jobs

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    async def __aenter__(self) -> T:
        return self.__enter__()

    async def __aexit__(self, *exc_info: object) -> None:
        self.__exit__(*exc_info)

    def __call__(self, function: AnyCallable) -> AnyCallable:
        """Decorate a function: each call of it runs in this mode."""
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

    def _begin(self) -> tuple[TestDispatcher, T]:
        raise NotImplementedError

    def _copy(self) -> _Mode[T]:
        return type(self)()


class captured_jobs(_Mode[CapturedJobs]):  # noqa: N801 (used as a function)
    """Capture jobs in a list, which is returned: none is enqueued, and none runs.

        with captured_jobs() as jobs:
            signup(request)
        assert [job.name for job in jobs] == ["shop.jobs.send_welcome"]

    The list may be used inside the block, too. Jobs of a transaction are in it when that
    has committed, and not after a rollback. No server is needed, except to `run()`
    captured jobs.
    """

    def _begin(self) -> tuple[TestDispatcher, CapturedJobs]:
        chosen = CaptureDispatcher()
        return chosen, chosen.jobs


class inline_jobs(_Mode[Runs]):  # noqa: N801 (used as a function)
    """Run each job at once in this process; the list of the runs is returned.

        with inline_jobs():
            signup(request)
        assert len(mail.outbox) == 1

    Jobs are enqueued and run through the real core on the tests' server: arguments travel
    as JSON, rows are loaded, dependencies and workflows work; delays are skipped. What
    was ready before runs as well. In a transaction they run on commit.

    An exception in a job is raised where the job was enqueued, and the job has failed.
    With `raise_failures=False` it runs again as often as its retries allow. Raises
    EndlessJobs after `limit` runs.
    """

    def __init__(self, *, raise_failures: bool = True, limit: int = MAX_RUNS) -> None:
        super().__init__()
        self._raise_failures = raise_failures
        self._limit = limit

    def _begin(self) -> tuple[TestDispatcher, Runs]:
        chosen = InlineDispatcher(
            raise_failures=self._raise_failures, limit=self._limit
        )
        return chosen, chosen.runs

    def _copy(self) -> inline_jobs:
        return inline_jobs(raise_failures=self._raise_failures, limit=self._limit)


def enqueued_jobs() -> CapturedJobs:
    """Return the jobs that were enqueued: those of the innermost `captured_jobs`.

    Outside of one: all that this test has enqueued, captured or not, run or not, and what
    schedules and other processes have enqueued on the tests' server. Where the core has
    kept another job (`unique`), or replaced one, only the job that remains.
    """
    capturing = dispatcher.innermost(CaptureDispatcher)
    if capturing is not None:
        return capturing.jobs
    remembered = dispatcher.remembered()
    jobs = CapturedJobs()
    for job in remembered:
        if job.handle.created is False:
            if job.put.conflict != "replace":
                continue
            jobs = CapturedJobs(each for each in jobs if each.jid != job.jid)
        jobs.append(job)
    jobs.extend(_jobs_of_others({job.jid for job in remembered}))
    return jobs


def _jobs_of_others(known: set[str]) -> Iterator[CapturedJob]:
    """Yield the jobs of schedules and other processes, in the order of enqueueing.

    Only on the tests' server: another one may hold jobs of anything.
    """
    if throwaway.running() is None:
        return
    for alias in conf.alias_names():
        if conf.alias(alias).throwaway is None:
            continue
        client = connections[alias]
        unknown = [jid for jid in _jids(client) if jid not in known]
        for job in sorted(client.multiget(unknown), key=_enqueued_at):
            yield _captured_record(alias, job)


def _jids(client: Client) -> Iterator[str]:
    """Yield the ids of all jobs, in any state."""
    for counts in client.queues():
        for state in IN_QUEUE:
            yield from client.jobs(state, counts.name, 0, MAX_JOBS)  # type: ignore[arg-type]
    yield from client.completed(0, MAX_JOBS)
    for group in client.failed():
        yield from client.failed_jobs(group, 0, MAX_JOBS).jids


def _enqueued_at(job: Job) -> float:
    return float(job.history[0]["when"]) if job.history else 0.0


def _captured_record(alias: str, job: Job) -> CapturedJob:
    """Return a job on the server as it was enqueued."""
    context = to_json(job.context) if job.context else None
    put = put_like(job, tags=job.tags, depends=job.dependencies, context=context)
    first = job.history[0].get("q") if job.history else ""
    handle: JobHandle[Any] = JobHandle(alias, job)
    return CapturedJob(alias, handle, put._replace(queue=first or job.queue))
