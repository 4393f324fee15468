"""Middleware around each execution, as Django's around each request.

    def trace(run):                     # a factory: takes what runs a job …
        def around(job):                # … and returns what does it instead
            with tracer.span(job.name):
                return run(job)
        return around

With `django.utils.decorators.sync_and_async_middleware` or `async_only_middleware` (or
the attributes `sync_capable` and `async_capable`) a factory says that it knows what to do
with an asynchronous `run`. Where it does not, threads are put in between, as in Django.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.utils.module_loading import import_string

from django_qless import conf
from django_qless.current import CurrentJob
from django_qless.options import Factory
from django_qless.registry import JobType

Run = Callable[[CurrentJob], Any]
AsyncRun = Callable[[CurrentJob], Awaitable[Any]]


class Chains:
    """What runs the jobs of an alias, with its MIDDLEWARE and their own around it.

    Made when first needed, once for all jobs that have no middleware of their own.
    """

    def __init__(self, alias: str, call: Run, acall: AsyncRun) -> None:
        """`call` and `acall` run a job's function, in a thread or in an event loop."""
        self._alias = alias
        self._call = call
        self._acall = acall
        self._made: dict[JobType | None, Run] = {}
        self._made_async: dict[JobType | None, AsyncRun] = {}

    def sync(self, job_type: JobType) -> Run:
        """Return what runs a job of this type in a thread."""
        key = job_type if job_type.options.middleware else None
        found = self._made.get(key)
        if found is None:
            found = chained(self._factories(job_type), self._call, is_async=False)
            self._made[key] = found
        return found

    def asynchronous(self, job_type: JobType) -> AsyncRun:
        """Return what runs a job of this type in an event loop."""
        key = job_type if job_type.options.middleware else None
        found = self._made_async.get(key)
        if found is None:
            found = chained(self._factories(job_type), self._acall, is_async=True)
            self._made_async[key] = found
        return found

    def _factories(self, job_type: JobType) -> list[Factory]:
        names = (*conf.alias(self._alias).middleware, *job_type.options.middleware)
        return [
            import_string(each) if isinstance(each, str) else each for each in names
        ]


def chained(factories: Iterable[Factory], run: Run, *, is_async: bool) -> Run:
    """Return `run` with these around it, the first outermost.

    `is_async` says whether `run` returns an awaitable, and so does what is returned.
    """
    run_is_async = is_async
    for factory in reversed(list(factories)):
        takes_sync = getattr(factory, "sync_capable", True)
        takes_async = getattr(factory, "async_capable", False)
        if not takes_sync and not takes_async:
            raise ImproperlyConfigured(
                f"The middleware {factory!r} must have at least one of sync_capable and "
                "async_capable."
            )
        wanted = takes_async and (run_is_async or not takes_sync)
        try:
            made = factory(adapted(run, run_is_async, to_async=wanted))
        except MiddlewareNotUsed:
            continue
        if made is None:
            raise ImproperlyConfigured(f"The middleware {factory!r} returned None.")
        run, run_is_async = made, wanted
    return adapted(run, run_is_async, to_async=is_async)


def adapted(run: Run, is_async: bool, *, to_async: bool) -> Run:
    """Return what does the same in the other world, if that is asked for."""
    if is_async and not to_async:
        return async_to_sync(run)
    if to_async and not is_async:
        return sync_to_async(run, thread_sensitive=True)
    return run
