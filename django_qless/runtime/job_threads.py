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
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_qless.job_types.current import CurrentJob, running
from django_qless.runtime.connection_cleanup import after_job, before_job
from django_qless.runtime.middleware import Run

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

    async def serve(self, run: Run, job: CurrentJob) -> Any:
        """Run a job in the event loop, as `current_job()` of this task.

        What it calls through `sync_to_async` runs in this thread, whose connections are
        cleaned up afterwards.
        """
        job_token = running.set(job)
        thread_token = SyncToAsync.thread_sensitive_context.set(self._key)
        try:
            return await run(job)
        finally:
            running.reset(job_token)
            SyncToAsync.thread_sensitive_context.reset(thread_token)
            if self.used:
                clean_up = partial(after_job, None, suspect=job.was_interrupted)
                await asyncio.wrap_future(super().submit(clean_up))
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
