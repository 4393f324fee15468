"""Middleware around each execution, as Django's around each request.

    def trace(run):                     # a factory: takes a callable that runs a job …
        def around(job):                # … and returns another one around it
            with tracer.span(job.name):
                return run(job)
        return around

With `django.utils.decorators.sync_and_async_middleware` or `async_only_middleware` (or
the attributes `sync_capable` and `async_capable`) a factory says that it accepts an
asynchronous `run`. Where it does not, threads are put in between, as in Django.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.utils.module_loading import import_string

from django_qless import conf
from django_qless.job_types.current import CurrentJob

Run = Callable[[CurrentJob], Any]


#: Takes the call that runs a job, and returns a replacement.
MiddlewareFactory = Callable[[Run], Run]


def factories_for(alias: str) -> list[MiddlewareFactory]:
    """Return the middleware factories of an alias."""
    return [import_string(name) for name in conf.alias(alias).middleware]


def chained(factories: Iterable[MiddlewareFactory], run: Run, *, is_async: bool) -> Run:
    """Return `run` with these factories' middleware around it, the first outermost.

    With `is_async` both `run` and the chain return awaitables.
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
    """Return `run` as a sync or an async callable."""
    if is_async and not to_async:
        return async_to_sync(run)
    if to_async and not is_async:
        return sync_to_async(run, thread_sensitive=True)
    return run
