"""Dispatch in tests: to the tests' server, into a list, or run at once.

A TestCase wraps each test in transactions that it rolls back. Those do not count: what is
enqueued in a test without a transaction of the project's own is sent at once. Within the
project's own `atomic()` it is sent where that would commit: when the outermost block of
the project ends well. What a rollback, also to a savepoint, undoes is dropped. In a
TransactionTestCase transactions commit, and none of this plays a part.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections as databases
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import Atomic

from django_qless import conf
from django_qless.conf import in_tests
from django_qless.enqueue import dispatch
from django_qless.servers import throwaway
from django_qless.testing.captured import CapturedJob, captured

if TYPE_CHECKING:
    from django_qless.enqueue.dispatchable import Dispatchable

# Jobs remembered at most: tests may neither look at them nor clear them.
MAX_REMEMBERED = 10_000

T = TypeVar("T")


class TestDispatcher(dispatch.Dispatcher):
    """Sends to the tests' server; remembers the jobs for assertions."""

    __test__ = False  # for pytest: not a class of tests

    def is_in_transaction(self, database: str) -> bool:
        """Return whether the project has a transaction open in this database."""
        return _in_project_transaction(databases[database])

    def on_commit(self, database: str, callback: Callable[[], None]) -> None:
        """Call this where the project's transaction commits, or would commit."""
        databases[database].on_commit(_CommitCallback(callback))

    def send(self, dispatchable: Dispatchable) -> None:
        """Send it now."""
        with _remembered(dispatchable):
            self.deliver(dispatchable)

    async def asend(self, dispatchable: Dispatchable) -> None:
        """Send it now, from asynchronous code."""
        with _remembered(dispatchable):
            await self.adeliver(dispatchable)

    def send_each(self, some: Sequence[Dispatchable]) -> None:
        """Send these now, one after the other: jobs may run as they are sent."""
        for each in some:
            self.send(each)

    async def asend_each(self, some: Sequence[Dispatchable]) -> None:
        """Send these now, from asynchronous code."""
        for each in some:
            await self.asend(each)

    def send_each_on_commit(self, some: Sequence[Dispatchable]) -> None:
        """Send what has waited for one commit, one after the other."""
        for each in some:
            self.send_on_commit(each)

    def send_on_commit(self, dispatchable: Dispatchable) -> None:
        """Send what has waited for a commit."""
        with _remembered(dispatchable):
            self.deliver(dispatchable, on_commit=True)

    def deliver(self, dispatchable: Dispatchable, *, on_commit: bool = False) -> None:
        """Enqueue the jobs in the way of this dispatcher."""
        if on_commit:
            dispatchable.send_on_commit()
        else:
            dispatchable.send()

    async def adeliver(self, dispatchable: Dispatchable) -> None:
        """Enqueue the jobs from asynchronous code."""
        await dispatchable.asend()


class _CommitCallback:
    """Callback that runs once: when the project's transaction ends, or on commit.

    In a TestCase it is also one of the callbacks of `on_commit`: there a rollback to a
    savepoint drops it, and `captureOnCommitCallbacks` finds it.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def __call__(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


_lock = threading.Lock()
_dispatchers = [TestDispatcher()]
_jobs: deque[CapturedJob] = deque(maxlen=MAX_REMEMBERED)


def begin() -> None:
    """Prepare this process for tests: called once, before the first call of the package.

    Clients made before are dropped, and what is enqueued comes by here.
    """
    conf.clear_cache()
    if Atomic.__exit__ is not _exit_atomic:
        Atomic.__exit__ = _exit_atomic  # type: ignore[method-assign]
    dispatch.dispatcher = _dispatchers[-1]


def ensure_begun() -> None:
    """Prepare this process for tests, even outside of Django's test environment."""
    in_tests.begin(forced=True)


def clean() -> None:
    """Forget all jobs, and empty the server that this process has started."""
    ensure_begun()
    _jobs.clear()
    server = throwaway.running()
    if server is not None:
        server.flush()


def qless_server() -> throwaway.Throwaway:
    """Return the private server of this process, running: `url`, `client()`, `flush()`.

    Raises NoServer if there is none for this machine.
    """
    ensure_begun()
    return throwaway.server()


@contextmanager
def using(dispatcher: TestDispatcher) -> Iterator[None]:
    """Send everything through this dispatcher, in all threads.

    All threads, because that of a live server must be included. What waits for a commit
    is sent by the dispatcher that was in use when it was enqueued.
    """
    ensure_begun()
    with _lock:
        _dispatchers.append(dispatcher)
        dispatch.dispatcher = dispatcher
    try:
        yield
    finally:
        with _lock:
            # Not always the last: blocks of several threads may overlap.
            _dispatchers.remove(dispatcher)
            dispatch.dispatcher = _dispatchers[-1]


def innermost(kind: type[T]) -> T | None:
    """Return the innermost dispatcher in use of this class, or None."""
    ensure_begun()
    return next(
        (each for each in reversed(_dispatchers) if isinstance(each, kind)), None
    )


def in_use() -> TestDispatcher:
    """Return the dispatcher in use."""
    return _dispatchers[-1]


def remembered() -> list[CapturedJob]:
    """Return the jobs that this process has enqueued since the last `clean()`."""
    return list(_jobs)


@contextmanager
def _remembered(dispatchable: Dispatchable) -> Iterator[None]:
    # Before it is sent: inline, the jobs that it enqueues itself come after it.
    jobs = captured(dispatchable)
    _jobs.extend(jobs)
    try:
        yield
    except BaseException:
        for job in jobs:
            if job.handle.pending or job.handle.created is None:
                with suppress(ValueError):  # forgotten already
                    _jobs.remove(job)
        raise


_original_exit: Callable[..., None] = Atomic.__exit__


def _exit_atomic(self: Atomic, *exc_info: Any) -> None:
    _original_exit(self, *exc_info)
    connection = databases[self.using or "default"]
    if (
        connection.run_on_commit
        and connection.in_atomic_block
        and not _in_project_transaction(connection)
    ):
        _run_callbacks(connection)


def _run_callbacks(connection: BaseDatabaseWrapper) -> None:
    """Run what waits for the project's transaction, which has ended in a TestCase."""
    waiting = [
        callback
        for _, callback, *_ in connection.run_on_commit
        if isinstance(callback, _CommitCallback)
    ]
    try:
        # After a failed atomic(savepoint=False) the TestCase rolls back.
        if not connection.needs_rollback:
            for each in waiting:
                each()
    finally:
        # As with Django's callbacks: when one raises the others are dropped.
        for each in waiting:
            each.callback = None


def _in_project_transaction(connection: BaseDatabaseWrapper) -> bool:
    return any(
        not getattr(block, "_from_testcase", False)
        for block in connection.atomic_blocks
    )
