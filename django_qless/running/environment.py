"""Where a running job meets Django: the only place, called by the worker's execution.

Before and after each job: database connections that are stale or broken are closed,
transactions that the job left open are rolled back, locale and time zone are as they
were. See `worker/environment.py` for what each method promises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextvars import copy_context
from functools import cached_property, partial
from time import monotonic
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections as databases

from django_qless import conf, signals
from django_qless.connections import connections
from django_qless.core import AsyncClient, Client, Reserved
from django_qless.current import CurrentJob, running
from django_qless.declared import apply_declared
from django_qless.exceptions import Interrupted, RowGone
from django_qless.puts import carriers
from django_qless.registry import Binding, JobType, registry
from django_qless.running.calls import Call, is_async, prepared, type_of, without_row
from django_qless.running.job_threads import JobThreads
from django_qless.running.middleware import Chains
from django_qless.running.tidiness import after_job, before_job, leave_thread
from django_qless.schedules.declared import AGAIN, apply_at_start, lost_by_server
from django_qless.schedules.row_endings import listen_to_all
from django_qless.tasks import catalogue
from django_qless.tasks import running as tasks
from django_qless.values import encode_value
from django_qless.worker.contexts import awaited_in
from django_qless.worker.environment import NO_LIMITS, Limits
from django_qless.worker.interrupt import TaskRegion, ThreadRegion, reason_of
from django_qless.workflows import spawning

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

    #: How a thread is put in order around each job.
    before_job = staticmethod(before_job)
    after_job = staticmethod(after_job)

    def __init__(self, alias: str = conf.DEFAULT_ALIAS) -> None:
        self.alias = alias
        self._chains = Chains(alias, self._call, self._acall)
        self._threads = JobThreads()
        # When what recurs is to be declared again, by the monotonic clock.
        self._schedules_due: float | None = None
        # Whether the server has all that is declared, as far as this process knows.
        self._is_declared = False

    def at_start(self) -> None:
        """Bring to the server what is declared: queues and options, recurring jobs.

        What is wrong with those that recur does not keep a worker from its work.
        """
        connections.enter_worker()
        apply_declared(self.alias)
        self._try_to_apply_schedules()
        try:
            listen_to_all(self.alias)
        except Exception:
            logger.exception("schedules of deleted rows end at their next ticks only")
        self._is_declared = self._has_declared()

    def look_after_declared(self) -> None:
        """Bring what is declared to a server that has lost its data."""
        if self._is_declared and lost_by_server(self.alias):
            logger.warning(
                "the server has lost what this project declares: it is applied again"
            )
            self.at_start()

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or of one that had this name before.

        A Task that this process does not know yet is looked for, see `tasks.catalogue`.
        """
        return registry.get(klass) or catalogue.find(klass, self.alias)

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
        if self._schedules_due and monotonic() > self._schedules_due:
            self._try_to_apply_schedules()
        return copy_context().run(self._tidily, job_type, reserved, current)

    async def arun(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> Any:
        """Run it in the running event loop, or if it is no coroutine, in a thread."""
        thread = self._threads.take()
        try:
            if not is_async(job_type, reserved):
                return await thread.call(self.run, job_type, reserved, current)
            if self._schedules_due and monotonic() > self._schedules_due:
                await thread.call(self._try_to_apply_schedules)
            context = copy_context()
            context.run(running.set, current)
            thread.attach(context)
            chain = self._chains.asynchronous(job_type)
            if carriers.MARK in reserved.context:
                chain = carriers.arestoring(self.alias, chain)
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

    @cached_property
    def _has_tasks(self) -> bool:
        """Whether Tasks of Django's may come this way."""
        return any(True for _ in catalogue.backends(self.alias))

    def hears(self, what: str) -> bool:
        """Return whether the signal `job_<what>` has receivers, or Tasks want to know."""
        signal = SIGNALS.get(what)
        if signal is None:
            return False
        return bool(signal.receivers) or self._has_tasks

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        """Send the signal `job_<what>`; what its receivers raise is logged.

        Before that, a Task sends its own.
        """

        def send() -> None:
            depths = self.before_job()
            try:
                if is_task:
                    tasks.tell(what, current, details.get("exception"))
                SIGNALS[what].send_robust(sender, job=current, **details)
            finally:
                self.after_job(depths)

        # The end of a job whose process died is told by another one.
        sender = registry.get(current.name) or self.resolve(current.name)
        is_task = catalogue.is_task(current.name)
        if not is_task and not SIGNALS[what].receivers:
            return
        try:
            copy_context().run(send)
        except BaseException:  # SystemExit changes nothing, either
            logger.exception("a receiver of job_%s failed", what)

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        """Send it from a thread; the event loop goes on meanwhile."""
        if not SIGNALS[what].receivers:
            if tasks.is_quick(what, current):
                copy_context().run(tasks.tell, what, current)
                return
            if not catalogue.is_task(current.name):
                return
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

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Put jobs on behalf of a running one; return their handles."""
        return spawning.spawn(self.alias, current, jobs)

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Do the same in a running event loop."""
        return await spawning.aspawn(self.alias, current, jobs)

    def dependency_results(self, current: CurrentJob) -> dict[str, Any]:
        """Return what the jobs returned that a running one had to wait for, by jid."""
        return spawning.dependency_results(self.alias, current.jid)

    async def adependency_results(self, current: CurrentJob) -> dict[str, Any]:
        """Do the same in a running event loop."""
        return await spawning.adependency_results(self.alias, current.jid)

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

    def _apply_schedules(self) -> None:
        """Apply what recurs, or find out when that is to be done."""
        self._schedules_due = None
        waits = apply_at_start(self.alias)
        if waits:
            self._schedules_due = monotonic() + waits

    def _try_to_apply_schedules(self) -> None:
        """Do so at the start, or between jobs, which go on whatever comes of it."""
        try:
            self._apply_schedules()
        except Exception:
            logger.exception("recurring jobs are not applied yet")
            self._schedules_due = monotonic() + AGAIN

    def _has_declared(self) -> bool:
        try:
            return not lost_by_server(self.alias)
        except Exception:
            logger.exception("it is not known whether all that is declared was applied")
            return False

    def _tidily(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> Any:
        running.set(current)
        depths = self.before_job()
        suspect = False
        try:
            chain = self._chains.sync(job_type)
            if carriers.MARK in reserved.context:
                chain = carriers.restoring(self.alias, chain)
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
            self.after_job(depths, suspect=suspect)

    # The innermost link of the chains of middleware.

    def _call(self, current: CurrentJob) -> Any:
        """Call the function of a job with the arguments that it carries."""
        try:
            call = prepared(current)
        except RowGone as gone:
            return without_row(current, gone)
        if call.is_async:
            # On a loop of its own; what it calls through sync_to_async runs in this
            # thread, with this thread's database connections.
            result = async_to_sync(self._in_own_loop)(current, call)
        else:
            result = call.function(*call.args, **call.kwargs)
        if call.job is not None:
            return call.job.settle()
        return result if call.task is None else call.task.finish(result)

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
            try:
                call = await sync_to_async(prepared)(current)
            except RowGone as gone:
                return await sync_to_async(without_row)(current, gone)
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
        return result if call.task is None else call.task.finish(result)
