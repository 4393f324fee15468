"""Threads for what jobs in an event loop have to do outside of it.

Functions that are no coroutines run in one, and what coroutines hand to asgiref's
`sync_to_async`: Django's database calls, above all. While a job runs, the thread is its
own, with database connections of its own; the next job to need one finds them open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_qless.running.tidiness import after_job, before_job

T = TypeVar("T")


class JobThread(ThreadPoolExecutor):
    """One thread, which is started when the first job needs it."""

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="qless job")
        #: Whether the present job has used it.
        self.used = False
        # By this, asgiref finds the thread that belongs to a job.
        self._key = ThreadSensitiveContext()
        SyncToAsync.context_to_thread_executor[self._key] = self

    def attach(self, context: Context) -> None:
        """Let `sync_to_async` use this thread for what runs in the context."""
        context.run(SyncToAsync.thread_sensitive_context.set, self._key)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call the function in the thread; it leaves the thread in order itself."""
        return await asyncio.wrap_future(super().submit(function, *args))

    def submit(
        self, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        """Call the function in the thread; asgiref does so, from a job's coroutine."""
        if not self.used:
            self.used = True
            super().submit(before_job)
        return super().submit(function, *args, **kwargs)

    async def tidy(self, *, suspect: bool) -> None:
        """Put the thread in order after a job; `suspect` as in `after_job`."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self, lambda: after_job(None, suspect=suspect))
        self.used = False


class JobThreads:
    """The threads of one process: as many as jobs need at the same time."""

    def __init__(self) -> None:
        self._free: list[JobThread] = []

    def take(self) -> JobThread:
        """Return a thread that no other job has; the one that was used last, if any."""
        return self._free.pop() if self._free else JobThread()

    def give_back(self, thread: JobThread) -> None:
        """Take back a thread that is in order."""
        self._free.append(thread)
