"""The innermost part of a run: the call of the job's function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync, sync_to_async

from django_qless.conf.connections import connections
from django_qless.declare.class_job import ClassJob, method_of
from django_qless.exceptions import RowGone
from django_qless.job_types.current import CurrentJob, running
from django_qless.job_types.registry import Binding, JobType
from django_qless.runtime.leftover import in_task_scope
from django_qless.runtime.returned import awaited, is_awaitable, refuse_generator
from django_qless.schedules.per_row import has_ended_with_row
from django_qless.serialization.envelope import decode
from django_qless.serialization.model_references import ModelChanged, load_instance
from django_qless.tasks import attempt as tasks
from django_qless.worker.interrupt import handed_over, interrupt_reason


class JobCall(NamedTuple):
    """The call that runs a job."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    finish: Callable[[Any], Any] | None = None
    """Returns the job's result for what its function returned; None: that is the result."""
    finish_blocks: bool = False
    """True if `finish` asks the server, and must not be called in an event loop."""


def call(job: CurrentJob) -> Any:
    """Call the function of a job in this thread.

    A coroutine runs in an event loop of its own; what it calls through sync_to_async
    runs in this thread, with this thread's database connections.
    """
    try:
        job_call = prepared(job)
    except RowGone as gone:
        return finish_without_row(job, gone)
    if is_async(job):
        start = partial(job_call.function, *job_call.args, **job_call.kwargs)
        result = async_to_sync(in_own_loop)(job, job.soft_timeout, start)
    else:
        result = job_call.function(*job_call.args, **job_call.kwargs)
        if is_awaitable(result):
            with handed_over(job.reserved.token):
                result = async_to_sync(in_own_loop)(job, None, lambda: result)
    refuse_generator(job.name, result)
    return result if job_call.finish is None else job_call.finish(result)


async def in_own_loop(
    job: CurrentJob, soft: float | None, start: Callable[[], Any]
) -> Any:
    """Await what `start` returns, then close the connections of this event loop."""
    try:
        return await in_task_scope(job, soft, awaited(start()))
    finally:
        await connections.aclose()


async def acall(job: CurrentJob) -> Any:
    """Await the function of a job in this event loop."""
    on_row = job.job_type.binding is Binding.ROW
    try:
        if on_row or job.companions or '"$model"' in job.reserved.data:
            job_call = await sync_to_async(prepared)(job)
        else:
            job_call = prepared(job)
    except RowGone as gone:
        return await sync_to_async(finish_without_row)(job, gone)
    try:
        result = job_call.function(*job_call.args, **job_call.kwargs)
        result = await awaited(result)
    except asyncio.CancelledError as error:
        # Middleware is to see the same exceptions around all kinds of jobs.
        reason = interrupt_reason(job.reserved.token)
        if reason is None:
            raise
        raise reason.with_traceback(error.__traceback__) from None
    refuse_generator(job.name, result)
    if job_call.finish is None:
        return result
    if job_call.finish_blocks:
        return await sync_to_async(job_call.finish)(result)
    return job_call.finish(result)


def is_async(job: CurrentJob) -> bool:
    """Return whether the function of a job is a coroutine function."""
    job_type: JobType = job.job_type
    if job_type.binding is not Binding.CLASS:
        return job_type.is_async
    method = method_of(job_type.function, job.queue)  # type: ignore[arg-type]
    return inspect.iscoroutinefunction(method)


def prepared(job: CurrentJob) -> JobCall:
    """Return the call for a job; rows among the arguments are loaded from databases."""
    job_type: JobType = job.job_type
    binding, function = job_type.binding, job_type.function
    if binding is Binding.CLASS:
        class_job = ClassJob(job)
        running.set(class_job)
        method = method_of(function, class_job.queue)  # type: ignore[arg-type]
        return JobCall(method, [class_job], {}, lambda _: class_job.settle(), True)
    if binding is Binding.TASK:
        attempt = tasks.attempt_of(job)
        assert attempt is not None  # its type says so
        args, kwargs = attempt.arguments(), attempt.data.kwargs
        return JobCall(function, args, kwargs, attempt.finish)
    if job_type.options.entity:
        return entities_call(job)
    sensitive = bool(job_type.options.sensitive)
    envelope = decode(job.reserved.data, sensitive=sensitive)
    args = envelope.args
    if binding is Binding.ROW:
        row = load_instance(job_type.model, envelope.row, envelope.database)
        args = [row, *args]
    elif binding is Binding.MODEL:
        args = [job_type.owner, *args]
    return JobCall(function, args, envelope.kwargs)


def entities_call(job: CurrentJob) -> JobCall:
    """Return the call for entities: {entity: payloads}, or the payloads of a row."""
    job_type: JobType = job.job_type
    sensitive = bool(job_type.options.sensitive)
    jobs = (job.reserved, *job.companions)
    envelopes = [decode(each.data, sensitive=sensitive) for each in jobs]
    args: list[Any]
    if job_type.binding is Binding.ROW:
        first = envelopes[0]
        row = load_instance(job_type.model, first.row, first.database)
        args = [row, first.payloads()]
    else:
        args = [{each.entity: each.payloads() for each in envelopes}]
        if job_type.binding is Binding.MODEL:
            args.insert(0, job_type.owner)
    return JobCall(job_type.function, args, {})


def finish_without_row(job: CurrentJob, gone: RowGone) -> None:
    """End a job whose row is gone, if so declared or its schedule has ended.

    The row's own schedule ends with the row. The job's history says why it did nothing.
    Otherwise raises RowGone, also for a model that is gone or has other keys now: another
    version of the code may know better.
    """
    job_type = job.job_type
    if not isinstance(gone, ModelChanged) and has_ended_with_row(job_type, job):
        job.log("row-gone", reason=str(gone), schedule="has ended")
        return
    options = job_type.options_for(job.reserved.context)
    if options.missing != "ignore" or isinstance(gone, ModelChanged):
        raise gone
    job.log("row-gone", reason=str(gone))
