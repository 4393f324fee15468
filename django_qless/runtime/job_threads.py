"""Threads for the blocking work of jobs in an event loop.

Functions that are no coroutines run in one, and so do calls through asgiref's
`sync_to_async`: Django's database calls, above all. A running job has its thread for
itself; the next job reuses the thread and its open database connections.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_qless.runtime.connection_cleanup import after_job, before_job

T = TypeVar("T")


class JobThread(ThreadPoolExecutor):
    """One thread, started when the first job needs it."""

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="qless job")
        #: True if the current job has used it.
        self.used = False
        # asgiref finds the thread of a job by this key.
        self._key = ThreadSensitiveContext()
        SyncToAsync.context_to_thread_executor[self._key] = self

    def attach(self, context: Context) -> None:
        """Let `sync_to_async` use this thread for what runs in the context."""
        context.run(SyncToAsync.thread_sensitive_context.set, self._key)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that cleans up the thread's connections itself."""
        pid = os.getpid()

        def run() -> T:
            try:
                return function(*args)
            finally:
                if os.getpid() != pid:
                    os._exit(0)  # a copy of this process that the job has forked

        return await asyncio.wrap_future(super().submit(run))

    def submit(
        self, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        """Call a function of a job's coroutine: asgiref does, in `sync_to_async`."""
        if not self.used:
            self.used = True
            super().submit(before_job)
        return super().submit(function, *args, **kwargs)

    async def clean_up(self, *, suspect: bool) -> None:
        """Clean up the thread's connections after a job; `suspect` as in `after_job`."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self, lambda: after_job(None, suspect=suspect))
        self.used = False


class JobThreads:
    """Pool of a process's threads: as many as jobs need at the same time."""

    def __init__(self) -> None:
        self._free: list[JobThread] = []

    def take(self) -> JobThread:
        """Return a free thread, that which was used last if there are several."""
        return self._free.pop() if self._free else JobThread()

    def give_back(self, thread: JobThread) -> None:
        """Return a thread to the pool, cleaned up."""
        self._free.append(thread)
