"""The runtime of workers and tests: execution of a job with Django around it.

Before and after each job: database connections that are stale or broken are closed,
transactions that the job left open are rolled back, locale and time zone are as they
were. The methods are specified in `worker/environment.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cached_property, partial
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync, sync_to_async

from django_qless import conf
from django_qless.conf import routing, sealing
from django_qless.conf.connections import connections
from django_qless.core import AsyncClient, Client, Reserved
from django_qless.core.settle import SEALED
from django_qless.declare.class_job import ClassJob, method_of
from django_qless.enqueue import context_propagation
from django_qless.exceptions import Interrupted, RowGone
from django_qless.job_types.current import CurrentJob, running
from django_qless.job_types.registry import Binding, JobType, registry
from django_qless.outbox import tables as outbox_tables
from django_qless.runtime import connection_cleanup
from django_qless.runtime.announcements import SIGNALS, Announcements
from django_qless.runtime.job_threads import JobThreads
from django_qless.runtime.leftover import with_its_tasks
from django_qless.runtime.middleware import chained, factories_for
from django_qless.runtime.outboxes import check_outboxes, keep_sweeping
from django_qless.runtime.returned import (
    awaited,
    is_awaitable,
    refuse_awaitable,
    refuse_generator,
)
from django_qless.runtime.startup import Startup
from django_qless.schedules.per_row import has_ended_with_row
from django_qless.serialization.envelope import decode
from django_qless.serialization.json_values import encode_value, to_json
from django_qless.serialization.model_references import ModelChanged, load_instance
from django_qless.tasks import attempt as tasks
from django_qless.tasks import known_tasks
from django_qless.worker.environment import NO_LIMITS, Limits
from django_qless.worker.interrupt import (
    TaskScope,
    ThreadScope,
    await_in_context,
    handed_over,
    interrupt_reason,
)
from django_qless.workflows import spawn

logger = logging.getLogger("django_qless.worker")


class JobCall(NamedTuple):
    """The call that runs a job."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    is_async: bool
    finish: Callable[[Any], Any] | None = None
    """Returns the job's result for what its function returned; None: that is the result."""
    finish_blocks: bool = False
    """True if `finish` asks the server, and must not be called in an event loop."""


class DjangoEnvironment(Announcements):
    """The environment of a Django project, for the workers of one alias."""

    def __init__(self, alias: str = conf.DEFAULT_ALIAS) -> None:
        self.alias = alias
        self._startup = Startup(alias)
        # The middleware around `_call` (False) and `_acall` (True).
        self._chains: dict[bool, Any] = {}
        self._threads = JobThreads()

    def on_start(self) -> None:
        """Apply config and schedules to the server.

        Raises ImproperlyConfigured for an outbox that cannot be used.
        """
        check_outboxes(self.alias)
        self._startup.apply()

    def has_outbox(self) -> bool:
        """Return whether the project has the app of the outbox."""
        return outbox_tables.is_installed()

    def sweep_outboxes(self) -> None:
        """Sweep up the outboxes of all databases, for ever."""
        keep_sweeping(self.alias)

    def restore_lost_config(self) -> None:
        """Apply config and schedules again if the server has lost its data."""
        self._startup.restore()

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or former name.

        An unknown Task is looked for in its module, see `tasks.known_tasks`.
        """
        return registry.get(klass) or known_tasks.find(klass, self.alias)

    def preload(self) -> None:
        """Build the middleware chain, and look up the constants of a process."""
        try:
            self._chain()
        except Exception:
            logger.exception("a middleware cannot be loaded")
        with suppress(Exception):
            _ = self._settings, self._has_tasks
            logger.isEnabledFor(logging.DEBUG)

    def detached_entry(self) -> tuple[str, ...]:
        """Return what makes this environment in the process of a detached job."""
        return "django_qless.runtime.detached.environment_of", self.alias

    def has_detached_jobs(self) -> bool:
        """Return whether the project has detached jobs."""
        return any(job_type.options.detached for job_type in registry)

    def detached_limit(self, queue: str) -> int:
        """Return how many detached jobs of a queue may run at once on a host."""
        return self._settings.detached_limit(queue)

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        """Return the time limits of a job: its own, else those of its queue."""
        options = job_type.options_for(reserved.context)
        soft, hard = options.timeout, options.hard_timeout
        if reserved.queue in self._settings.queues:
            of_queue = self._settings.limits(reserved.queue)
            soft = of_queue[0] if soft is None else soft
            hard = of_queue[1] if hard is None else hard
        return NO_LIMITS if soft is None and hard is None else Limits(soft, hard)

    @cached_property
    def _settings(self) -> conf.Alias:
        return conf.alias(self.alias)

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> Any:
        """Run the job's function; return its result, raise what it raises.

        What the job sets in context variables (the current language, the time zone)
        ends with it.
        """
        if self._startup.waits:
            self._startup.apply_due()
        return copy_context().run(self._run_in_thread, job_type, reserved, current)

    async def arun(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> Any:
        """Run the function in the event loop or, if it is no coroutine, in a thread."""
        thread = self._threads.take()
        try:
            if not _is_async(job_type, reserved):
                return await thread.call(self.run, job_type, reserved, current)
            if self._startup.waits:
                await thread.call(self._startup.apply_due)
            current.job_type = job_type
            context = copy_context()
            context.run(running.set, current)
            thread.attach(context)
            chain = self._chain(is_async=True)
            if context_propagation.MARK in reserved.context:
                chain = context_propagation.arestoring(self.alias, chain)
            scope = TaskScope(reserved.token, self.limits(job_type, reserved).soft)
            try:
                work = with_its_tasks(context.run(chain, current), reserved.jid)
                result = await scope.run(await_in_context(context, work))
                refuse_awaitable(current.name, result)
                return result
            finally:
                if thread.used:
                    await thread.clean_up(suspect=scope.was_interrupted)
        finally:
            self._threads.give_back(thread)

    def _run_in_thread(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> Any:
        current.job_type = job_type
        running.set(current)
        depths = self.before_job() if connection_cleanup.opened.databases else None
        suspect = False
        try:
            chain = self._chain()
            if context_propagation.MARK in reserved.context:
                chain = context_propagation.restoring(self.alias, chain)
            if _is_async(job_type, reserved):
                # Its coroutine is awaited in its own scope.
                result = chain(current)
            else:
                soft = self.limits(job_type, reserved).soft
                scope = ThreadScope(reserved.token, soft)
                try:
                    result = scope.run(chain, current)
                finally:
                    suspect = scope.was_interrupted
            refuse_awaitable(current.name, result)
            return result
        except Interrupted:
            suspect = True
            raise
        finally:
            if connection_cleanup.opened.databases:
                self.after_job(depths, suspect=suspect)

    def _chain(self, *, is_async: bool = False) -> Any:
        """Return `_call`, or `_acall`, with the middleware around it, made once."""
        chain = self._chains.get(is_async)
        if chain is None:
            run = self._acall if is_async else self._call
            chain = chained(factories_for(self.alias), run, is_async=is_async)
            self._chains[is_async] = chain
        return chain

    def _call(self, current: CurrentJob) -> Any:
        """Call the function of a job with the arguments that it carries."""
        try:
            call = _prepared(current)
        except RowGone as gone:
            return _finish_without_row(current, gone)
        if call.is_async:
            # In its own event loop; what it calls through sync_to_async runs in this
            # thread, with this thread's database connections.
            start = partial(call.function, *call.args, **call.kwargs)
            soft = self.limits(current.job_type, current.reserved).soft
            result = async_to_sync(self._in_own_loop)(current, start, soft)
        else:
            result = call.function(*call.args, **call.kwargs)
            if is_awaitable(result):
                with handed_over(current.reserved.token):
                    result = async_to_sync(self._in_own_loop)(current, lambda: result)
        refuse_generator(current.name, result)
        return result if call.finish is None else call.finish(result)

    async def _in_own_loop(
        self, current: CurrentJob, start: Callable[[], Any], soft: float | None = None
    ) -> Any:
        scope = TaskScope(current.reserved.token, soft)
        try:
            return await scope.run(with_its_tasks(awaited(start()), current.jid))
        finally:
            await connections.aclose()

    async def _acall(self, current: CurrentJob) -> Any:
        """Await the function of a job with the arguments that it carries."""
        is_on_row = current.job_type.binding is Binding.ROW
        if is_on_row or current.companions or '"$model"' in current.reserved.data:
            try:
                call = await sync_to_async(_prepared)(current)
            except RowGone as gone:
                return await sync_to_async(_finish_without_row)(current, gone)
        else:
            call = _prepared(current)
        try:
            result = await awaited(call.function(*call.args, **call.kwargs))
        except asyncio.CancelledError as error:
            # Middleware is to see the same exceptions around all kinds of jobs.
            reason = interrupt_reason(current.reserved.token)
            if reason is None:
                raise
            raise reason.with_traceback(error.__traceback__) from None
        refuse_generator(current.name, result)
        if call.finish is None:
            return result
        if call.finish_blocks:
            return await sync_to_async(call.finish)(result)
        return call.finish(result)

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None. Raises TypeError."""
        return "" if value is None else encode_value(value, "the job's result")

    def opened(self, reserved: Reserved) -> Reserved:
        """Return a job with data and context as before they were sealed. Raises Fail."""
        context = reserved.context
        if SEALED not in context and not reserved.data.startswith(SEALED):
            return reserved
        if SEALED in context:
            context = to_json(sealing.open_context(json.loads(context)))
        data = sealing.open_text(reserved.data)
        return reserved._replace(data=data, context=context)

    def sealed(self, text: str) -> str:
        """Return data or a result of a job as it is to be kept."""
        codec = sealing.codec_of(self.alias)
        return codec.seal(text) if codec is not None and text else text

    @cached_property
    def _has_tasks(self) -> bool:
        """True if jobs of this alias may be Tasks of Django's."""
        return any(True for _ in known_tasks.backends(self.alias))

    def has_listeners(self, what: str) -> bool:
        """Return whether the signal `job_<what>` has receivers, or Tasks may need it."""
        signal = SIGNALS.get(what)
        if signal is None:
            return False
        return bool(signal.receivers) or self._has_tasks

    def spawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Enqueue jobs for a running one; return their handles."""
        return spawn.spawn(self.alias, current, jobs)

    async def aspawn(self, current: CurrentJob, jobs: Iterable[Any]) -> list[Any]:
        """Asynchronous version of `spawn`."""
        return await spawn.aspawn(self.alias, current, jobs)

    def check_move(self, current: CurrentJob, queue: str) -> None:
        """Raise InvalidOption if this queue is in another alias."""
        routing.check_stays(f"Job {current.jid}: move_to", self.alias, queue)

    def dependency_results(self, current: CurrentJob, default: Any) -> dict[str, Any]:
        """Return the results of a running job's dependencies, by jid."""
        return spawn.dependency_results(self.alias, current.jid, default)

    async def adependency_results(
        self, current: CurrentJob, default: Any
    ) -> dict[str, Any]:
        """Asynchronous version of `dependency_results`."""
        return await spawn.adependency_results(self.alias, current.jid, default)

    def client(self, alias: str) -> Client:
        """Return this process's client of the alias."""
        return connections[alias]

    def aclient(self, alias: str) -> AsyncClient:
        """Return this process's client of the alias for asyncio."""
        return connections.aclient(alias)

    def before_fork(self) -> None:
        """Close what two processes must not share."""
        connection_cleanup.before_fork()
        connections.close_all()

    def after_fork(self) -> None:
        """Forget what belongs to the parent; connections are opened when needed."""
        self._threads = JobThreads()

    def leave_thread(self) -> None:
        """Close this thread's database connections."""
        connection_cleanup.leave_thread()


def _prepared(current: CurrentJob) -> JobCall:
    """Return the call for a job; rows among the arguments are loaded from databases."""
    job_type: JobType = current.job_type
    binding, function = job_type.binding, job_type.function
    if binding is Binding.CLASS:
        class_job = ClassJob(current)
        running.set(class_job)
        method = method_of(function, class_job.queue)  # type: ignore[arg-type]
        is_async = inspect.iscoroutinefunction(method)
        return JobCall(
            method, [class_job], {}, is_async, lambda _: class_job.settle(), True
        )
    if binding is Binding.TASK:
        attempt = tasks.attempt_of(current)
        assert attempt is not None  # its type says so
        args, kwargs = attempt.arguments(), attempt.data.kwargs
        return JobCall(function, args, kwargs, job_type.is_async, attempt.finish)
    if job_type.options.entity:
        return _prepared_entities(current)
    sensitive = bool(job_type.options.sensitive)
    envelope = decode(current.reserved.data, sensitive=sensitive)
    args = envelope.args
    if binding is Binding.ROW:
        row = load_instance(job_type.model, envelope.row, envelope.database)
        args = [row, *args]
    elif binding is Binding.MODEL:
        args = [job_type.owner, *args]
    return JobCall(function, args, envelope.kwargs, job_type.is_async)


def _prepared_entities(current: CurrentJob) -> JobCall:
    """Return the call for entities: {entity: payloads}, or the payloads of a row."""
    job_type: JobType = current.job_type
    sensitive = bool(job_type.options.sensitive)
    jobs = (current.reserved, *current.companions)
    envelopes = [decode(job.data, sensitive=sensitive) for job in jobs]
    args: list[Any]
    if job_type.binding is Binding.ROW:
        first = envelopes[0]
        row = load_instance(job_type.model, first.row, first.database)
        args = [row, first.payloads()]
    else:
        args = [{each.entity: each.payloads() for each in envelopes}]
        if job_type.binding is Binding.MODEL:
            args.insert(0, job_type.owner)
    return JobCall(job_type.function, args, {}, job_type.is_async)


def _finish_without_row(current: CurrentJob, gone: RowGone) -> None:
    """End a job whose row is gone, if so declared or its schedule has ended.

    The row's own schedule ends with the row. The job's history says why it did nothing.
    Otherwise raises RowGone, also for a model that is gone or has other keys now: another
    version of the code may know better.
    """
    job_type = current.job_type
    if not isinstance(gone, ModelChanged) and has_ended_with_row(job_type, current):
        current.log("row-gone", reason=str(gone), schedule="has ended")
        return
    options = job_type.options_for(current.reserved.context)
    if options.missing != "ignore" or isinstance(gone, ModelChanged):
        raise gone
    current.log("row-gone", reason=str(gone))


def _is_async(job_type: JobType, reserved: Reserved) -> bool:
    """Return whether the function of a job is a coroutine function."""
    if job_type.binding is not Binding.CLASS:
        return job_type.is_async
    method = method_of(job_type.function, reserved.queue)  # type: ignore[arg-type]
    return inspect.iscoroutinefunction(method)
