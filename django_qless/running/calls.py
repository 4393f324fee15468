"""What is to be called for a job: its function, with its arguments and its row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django_qless.classjobs import ClassJob, method_of
from django_qless.core import Reserved
from django_qless.current import CurrentJob, running
from django_qless.exceptions import RowGone
from django_qless.puts.arguments import decode
from django_qless.registry import Binding, JobType, registry
from django_qless.rows import ModelChanged, load_row
from django_qless.schedules.row_endings import has_ended_with_row
from django_qless.tasks import running as tasks
from django_qless.tasks.running import TaskRun


class Call(NamedTuple):
    """What is to be called for a job."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    is_async: bool
    job: ClassJob | None = None
    """Of a class job: it settles itself."""
    task: TaskRun | None = None
    """Of a Task of Django's: it has a say in what is a result."""


def prepared(current: CurrentJob) -> Call:
    """Return what is to be called; rows among the arguments are loaded from databases."""
    job_type = type_of(current)
    if job_type.binding is Binding.CLASS:
        job = ClassJob(current)
        running.set(job)
        method = step_of(job_type, job.queue)
        return Call(method, [job], {}, inspect.iscoroutinefunction(method), job)
    task = tasks.run_of(current)
    if task is not None:
        function, kwargs = job_type.function, task.envelope.kwargs
        return Call(function, task.arguments(), kwargs, job_type.is_async, task=task)
    sensitive = bool(job_type.options.sensitive)
    envelope = decode(current.reserved.data, sensitive=sensitive)
    args: list[Any] = envelope.args
    if job_type.binding is Binding.ROW:
        row = load_row(job_type.model, envelope.row, envelope.database)
        args = [row, *args]
    elif job_type.binding is Binding.MODEL:
        args = [job_type.owner, *args]
    return Call(job_type.function, args, envelope.kwargs, job_type.is_async)


def without_row(current: CurrentJob, gone: RowGone) -> None:
    """End a job whose row is gone: it has nothing to do if it is declared so.

    Neither has one of the row's own schedule, which ends with the row. Its history says
    why. Otherwise raises what was raised, and so it does for a model
    that is gone or has other keys now: another version of the code may know better.
    """
    job_type = type_of(current)
    if not isinstance(gone, ModelChanged) and has_ended_with_row(job_type, current):
        current.log("row-gone", reason=str(gone), schedule="has ended")
        return
    options = job_type.options_for(current.reserved.context)
    if options.missing != "ignore" or isinstance(gone, ModelChanged):
        raise gone
    current.log("row-gone", reason=str(gone))


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
