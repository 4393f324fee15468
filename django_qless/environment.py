"""Where a running job meets Django: the only place, called by the worker's execution.

Before and after each job: database connections that are stale or broken are closed,
transactions that the job left open are rolled back, locale and time zone are as they
were. See `worker/environment.py` for what each method promises.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections as databases

from django_qless import conf, signals
from django_qless.arguments import decode
from django_qless.classjobs import ClassJob, method_of
from django_qless.connections import connections
from django_qless.contexts import awaited_in
from django_qless.core import AsyncClient, Client, Reserved
from django_qless.current import CurrentJob, running
from django_qless.declared import apply_declared
from django_qless.exceptions import Interrupted
from django_qless.job_threads import JobThreads
from django_qless.middleware import Chains
from django_qless.registry import Binding, JobType, registry
from django_qless.tidiness import after_job, before_job, leave_thread
from django_qless.values import encode_value, load_row
from django_qless.worker.environment import NO_LIMITS, Limits
from django_qless.worker.interrupt import TaskRegion, ThreadRegion, reason_of

logger = logging.getLogger("django_qless.worker")

SIGNALS = {
    "started": signals.job_started,
    "completed": signals.job_completed,
    "failed": signals.job_failed,
    "retried": signals.job_retried,
    "lost": signals.job_lost,
}
WORKER_SIGNALS = {
    "started": signals.worker_started,
    "stopped": signals.worker_stopped,
}


class DjangoEnvironment:
    """The environment of a Django project, for the workers of one alias."""

    def __init__(self, alias: str = conf.DEFAULT_ALIAS) -> None:
        self.alias = alias
        self._chains = Chains(alias, self._call, self._acall)
        self._threads = JobThreads()

    def at_start(self) -> None:
        """Bring to the server what the setting QLESS declares of queues and options."""
        apply_declared(self.alias)

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or of one that had this name before."""
        return registry.get(klass)

    def warm(self) -> None:
        """Make the chains of middleware."""
        try:
            for job_type in registry:
                self._chains.sync(job_type)
        except Exception:
            logger.exception("a middleware cannot be loaded")

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        """Return how long the job may run: as it says itself, else as its queue says."""
        options = job_type.options_for(reserved.context)
        soft, hard = options.timeout, options.hard_timeout
        of_queue = conf.alias(self.alias).limits.get(reserved.queue)
        if of_queue is not None:
            soft = of_queue[0] if soft is None else soft
            hard = of_queue[1] if hard is None else hard
        return NO_LIMITS if soft is None and hard is None else Limits(soft, hard)

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> Any:
        """Run the job's function; return its result, raise what it raises.

        What the job sets in context variables (the current language, the time zone)
        ends with it.
        """
        return copy_context().run(self._tidily, job_type, reserved, current)

    async def arun(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> Any:
        """Run it in the running event loop, or if it is no coroutine, in a thread."""
        thread = self._threads.take()
        try:
            if not is_async(job_type, reserved):
                return await thread.call(self.run, job_type, reserved, current)
            context = copy_context()
            context.run(running.set, current)
            thread.attach(context)
            chain = self._chains.asynchronous(job_type)
            region = TaskRegion(reserved.token, self.limits(job_type, reserved).soft)
            try:
                running_chain = context.run(chain, current)
                return await region.run(awaited_in(context, running_chain))
            finally:
                if thread.used:
                    await thread.tidy(suspect=region.used)
        finally:
            self._threads.give_back(thread)

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None. Raises TypeError."""
        return "" if value is None else encode_value(value, "the job's result")

    def hears(self, what: str) -> bool:
        """Return whether the signal `job_<what>` has receivers."""
        signal = SIGNALS.get(what)
        return signal is not None and bool(signal.receivers)

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        """Send the signal `job_<what>`; what its receivers raise is logged."""

        def send() -> None:
            depths = before_job()
            try:
                SIGNALS[what].send_robust(sender, job=current, **details)
            finally:
                after_job(depths)

        sender = registry.get(current.name)
        try:
            copy_context().run(send)
        except BaseException:  # SystemExit changes nothing, either
            logger.exception("a receiver of job_%s failed", what)

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        """Send it from a thread; the event loop goes on meanwhile."""
        thread = self._threads.take()
        try:
            await thread.call(partial(self.announce, what, current, **details))
        finally:
            self._threads.give_back(thread)

    def worker_event(self, what: str, worker: str) -> None:
        """Send `worker_started` or `worker_stopped`, and leave no connection open."""
        signal = WORKER_SIGNALS[what]
        if signal.receivers:
            signal.send_robust(type(self), worker=worker, alias=self.alias)
            databases.close_all()

    def client(self, alias: str) -> Client:
        """Return this process's client of the alias."""
        return connections[alias]

    def aclient(self, alias: str) -> AsyncClient:
        """Return this process's client of the alias for asyncio."""
        return connections.aclient(alias)

    def before_fork(self) -> None:
        """Close what two processes must not share."""
        databases.close_all()
        connections.close_all()

    def after_fork(self) -> None:
        """Forget what belongs to the parent; connections are opened when needed."""
        self._threads = JobThreads()

    def leave_thread(self) -> None:
        """Close this thread's database connections."""
        leave_thread()

    def _tidily(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> Any:
        running.set(current)
        depths = before_job()
        suspect = False
        try:
            chain = self._chains.sync(job_type)
            if is_async(job_type, reserved):
                # It has a region of its own, where the coroutine is awaited.
                return chain(current)
            region = ThreadRegion(reserved.token, self.limits(job_type, reserved).soft)
            try:
                return region.run(chain, current)
            finally:
                suspect = region.used
        except Interrupted:
            suspect = True
            raise
        finally:
            after_job(depths, suspect=suspect)

    # The innermost link of the chains of middleware.

    def _call(self, current: CurrentJob) -> Any:
        """Call the function of a job with the arguments that it carries."""
        call = prepared(current)
        if call.is_async:
            # On a loop of its own; what it calls through sync_to_async runs in this
            # thread, with this thread's database connections.
            result = async_to_sync(self._in_own_loop)(current, call)
        else:
            result = call.function(*call.args, **call.kwargs)
        if call.job is not None:
            return call.job.settle()
        return result

    async def _in_own_loop(self, current: CurrentJob, call: Call) -> Any:
        reserved = current.reserved
        job_type = type_of(current)
        region = TaskRegion(reserved.token, self.limits(job_type, reserved).soft)
        try:
            return await region.run(call.function(*call.args, **call.kwargs))
        finally:
            await connections.aclose()

    async def _acall(self, current: CurrentJob) -> Any:
        """Await the function of a job with the arguments that it carries."""
        job_type = type_of(current)
        if job_type.binding is Binding.ROW or '"$model"' in current.reserved.data:
            call = await sync_to_async(prepared)(current)
        else:
            call = prepared(current)
        try:
            result = await call.function(*call.args, **call.kwargs)
        except asyncio.CancelledError as error:
            # Middleware is to see the same exceptions around all kinds of jobs.
            reason = reason_of(current.reserved.token)
            if reason is None:
                raise
            raise reason.with_traceback(error.__traceback__) from None
        if call.job is not None:
            return await sync_to_async(call.job.settle)()
        return result


class Call(NamedTuple):
    """What is to be called for a job."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    is_async: bool
    job: ClassJob | None = None
    """Of a class job: it settles itself."""


def prepared(current: CurrentJob) -> Call:
    """Return what is to be called; rows among the arguments are loaded from databases."""
    job_type = type_of(current)
    if job_type.binding is Binding.CLASS:
        job = ClassJob(current)
        running.set(job)
        method = step_of(job_type, job.queue)
        return Call(method, [job], {}, inspect.iscoroutinefunction(method), job)
    envelope = decode(current.reserved.data)
    args: list[Any] = envelope.args
    if job_type.binding is Binding.ROW:
        row = load_row(job_type.owner, envelope.row, envelope.database)  # type: ignore[arg-type]
        args = [row, *args]
    elif job_type.binding is Binding.MODEL:
        args = [job_type.owner, *args]
    return Call(job_type.function, args, envelope.kwargs, job_type.is_async)


def is_async(job_type: JobType, reserved: Reserved) -> bool:
    """Return whether what this job calls is a coroutine function."""
    if job_type.binding is not Binding.CLASS:
        return job_type.is_async
    return inspect.iscoroutinefunction(step_of(job_type, reserved.queue))


def step_of(job_type: JobType, queue: str) -> Callable[..., Any]:
    """Return the method of a class job that this queue names."""
    # The function of a class job is the class.
    method: Callable[..., Any] = method_of(job_type.function, queue)  # type: ignore[arg-type]
    return method


def type_of(current: CurrentJob) -> JobType:
    """Return the type of a job that runs."""
    # It runs, so the registry knew it a moment ago, and types are never removed.
    return registry.get(current.name)  # type: ignore[return-value]
