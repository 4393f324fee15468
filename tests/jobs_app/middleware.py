"""Middleware around executions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import MiddlewareNotUsed
from django.utils.decorators import async_only_middleware, sync_and_async_middleware

from django_qless import CurrentJob, Interrupted

seen: list[str] = []

Run = Callable[[CurrentJob], Any]


def place() -> str:
    """Return where this runs: in an event loop, or in which kind of thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        main = threading.current_thread() is threading.main_thread()
        return "main" if main else "thread"
    return "loop"


def outer(run: Run) -> Run:
    def around(job: CurrentJob) -> Any:
        seen.append(f"outer {job.name}")
        return run(job)

    return around


def inner(run: Run) -> Run:
    def around(job: CurrentJob) -> Any:
        seen.append("inner")
        return ["wrapped", run(job)]

    return around


@sync_and_async_middleware
def both(run: Run) -> Run:
    """Goes along with whatever there is."""
    if iscoroutinefunction(run):

        async def aaround(job: CurrentJob) -> Any:
            seen.append(f"both async {place()}")
            return await run(job)

        return aaround

    def around(job: CurrentJob) -> Any:
        seen.append(f"both sync {place()}")
        return run(job)

    return around


@async_only_middleware
def only_async(run: Run) -> Run:
    async def around(job: CurrentJob) -> Any:
        seen.append(f"only async {place()}")
        return await run(job)

    return around


def only_sync(run: Run) -> Run:
    def around(job: CurrentJob) -> Any:
        seen.append(f"only sync {place()}")
        return run(job)

    return around


def counted(run: Run) -> Run:
    """Tells how often it is made."""
    seen.append("made")
    return run


class Catching:
    """A class, as Django's are; turns failures into results."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __call__(self, job: CurrentJob) -> Any:
        try:
            return self.run(job)
        except (ValueError, Interrupted) as error:
            return f"caught {type(error).__name__}: {error}"


def not_used(run: Run) -> Run:
    seen.append("not used")
    raise MiddlewareNotUsed("today")


def returns_nothing(run: Run) -> None:
    pass


def capable_of_nothing(run: Run) -> Run:
    return run


capable_of_nothing.sync_capable = False  # type: ignore[attr-defined]


def unmarked(run: Run) -> Run:
    """Does not say that it is asynchronous."""

    async def around(job: CurrentJob) -> Any:
        return await run(job)

    return around


not_callable = 1


def translates(run: Run) -> Run:
    """Makes one exception of another."""

    def around(job: CurrentJob) -> Any:
        from tests.jobs_app.policies import Flaky

        try:
            return run(job)
        except KeyError as error:
            raise Flaky from error

    return around


@sync_and_async_middleware
def tells_tenant(run: Run) -> Run:
    """Tells whose data is worked on."""
    from tests.jobs_app import context

    def note() -> None:
        context.seen.append(f"middleware {context.tenant.get()}")

    if iscoroutinefunction(run):

        async def aaround(job: CurrentJob) -> Any:
            note()
            return await run(job)

        return aaround

    def around(job: CurrentJob) -> Any:
        note()
        return run(job)

    return around
