"""Where a running job meets Django: the only place, called by the worker's execution.

Before and after each job: database connections that are stale or broken are closed,
transactions that the job left open are rolled back, locale and time zone are as they
were. See `worker/environment.py` for what each method promises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from time import monotonic
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections as databases
from django.utils.module_loading import import_string

from django_qless import conf
from django_qless.arguments import decode
from django_qless.classjobs import ClassJob, method_of
from django_qless.connections import connections
from django_qless.core import Client, Reserved
from django_qless.current import CurrentJob, running
from django_qless.deadline import awaited_within, within
from django_qless.declared import apply_declared
from django_qless.registry import Binding, JobType, registry
from django_qless.values import encode_value, load_row

Run = Callable[[CurrentJob], Any]

#: A connection that was good so long ago needs no new look.
FRESH_SECONDS = 1.0


class DjangoEnvironment:
    """The environment of a Django project, for the workers of one alias."""

    def __init__(self, alias: str = conf.DEFAULT_ALIAS) -> None:
        self.alias = alias
        self._chain: Run | None = None
        self._fresh_until = 0.0

    def at_start(self) -> None:
        """Bring to the server what the setting QLESS declares of queues and options."""
        apply_declared(self.alias)

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or of one that had this name before."""
        return registry.get(klass)

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> Any:
        """Run the job's function; return its result, raise what it raises.

        What the job sets in context variables (the current language, the time zone)
        ends with it.
        """
        if self._chain is None:
            self._chain = self._middleware()
        return copy_context().run(self._tidily, self._chain, current)

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None. Raises TypeError."""
        return "" if value is None else encode_value(value, "the job's result")

    def client(self, alias: str) -> Client:
        """Return this process's client of the alias."""
        return connections[alias]

    def before_fork(self) -> None:
        """Close what two processes must not share."""
        databases.close_all()
        connections.close_all()

    def after_fork(self) -> None:
        """Forget what belongs to the parent; connections are opened when needed."""
        self._chain = None

    def _middleware(self) -> Run:
        """Return what runs a job, with the MIDDLEWARE of the alias around it.

        Each is called with what runs a job and returns its own, as Django's are.
        """
        run: Run = call
        for name in reversed(conf.alias(self.alias).middleware):
            run = import_string(name)(run)
        return run

    def _tidily(self, run: Run, current: CurrentJob) -> Any:
        running.set(current)
        # Transactions that are open before the job are not the job's: a test's, say.
        depths = {}
        for database in databases.all(initialized_only=True):
            depths[database.alias] = len(database.atomic_blocks)
            if monotonic() > self._fresh_until:
                database.close_if_unusable_or_obsolete()
        try:
            return run(current)
        finally:
            tidy(depths)
            self._fresh_until = monotonic() + FRESH_SECONDS


def call(current: CurrentJob) -> Any:
    """Call the function of a job with the arguments that it carries."""
    job_type: JobType = registry.get(current.name)  # type: ignore[assignment]
    timeout = job_type.options_for(current.reserved.context).timeout
    if job_type.binding is Binding.CLASS:
        return _call_class(job_type, current, timeout)
    envelope = decode(current.reserved.data)
    args: list[Any] = envelope.args
    if job_type.binding is Binding.ROW:
        row = load_row(job_type.owner, envelope.row, envelope.database)  # type: ignore[arg-type]
        args = [row, *args]
    elif job_type.binding is Binding.MODEL:
        args = [job_type.owner, *args]
    return _call(
        job_type.function, args, envelope.kwargs, timeout, is_async=job_type.is_async
    )


def tidy(depths: Mapping[str, int]) -> None:
    """Close database connections that are broken or too old.

    Transactions that go deeper than they should are rolled back to that depth.
    """
    for database in databases.all(initialized_only=True):
        depth = depths.get(database.alias, 0)
        while len(database.atomic_blocks) > depth:
            left_open = database.atomic_blocks[-1]
            left_open.__exit__(LeftOpen, LeftOpen(), None)
        database.queries_log.clear()
        database.close_if_unusable_or_obsolete()


class LeftOpen(Exception):
    """Rolls back a transaction that a job has left open."""


def _call_class(job_type: JobType, current: CurrentJob, timeout: float | None) -> None:
    job = ClassJob(current)
    running.set(job)
    method = method_of(job_type.function, job.queue)  # type: ignore[arg-type]
    is_async = inspect.iscoroutinefunction(method)
    _call(method, [job], {}, timeout, is_async=is_async)
    job.settle()


def _call(
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    timeout: float | None,
    *,
    is_async: bool,
) -> Any:
    if is_async:
        # On a loop of its own; what it calls through sync_to_async runs in this thread,
        # with this thread's database connections.
        return async_to_sync(_awaited)(function(*args, **kwargs), timeout)
    if timeout is None:
        return function(*args, **kwargs)
    with within(timeout):
        return function(*args, **kwargs)


async def _awaited(coroutine: Any, timeout: float | None) -> Any:
    try:
        return await awaited_within(timeout, coroutine)
    finally:
        await connections.aclose()
