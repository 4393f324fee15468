"""What jobs and middleware return: an awaitable is awaited, or refused.

What a function is says little: an ordinary decorator around a coroutine function makes
an ordinary function, which returns a coroutine.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from types import AsyncGeneratorType, GeneratorType

from django.core.exceptions import ImproperlyConfigured

from django_qless.exceptions import Fail
from django_qless.job_types.current import CurrentJob
from django_qless.worker.failure_report import BAD_RESULT


def is_awaitable(result: object) -> bool:
    """Return whether a result is one that has to be awaited first."""
    return result is not None and inspect.isawaitable(result)


async def awaited(result: object) -> object:
    """Return what comes of a result that may be awaitable."""
    while inspect.isawaitable(result):
        result = await result
    return result


def refuse_generator(name: str, result: object) -> None:
    """Raise Fail if a job has returned a generator."""
    if isinstance(result, (GeneratorType, AsyncGeneratorType)):
        raise Fail(
            BAD_RESULT,
            f"{name} returned a generator, of which nothing has run: a job returns. Go "
            "through it in the job, or return list(…) of it.",
        )


def refuse_awaitable(job: CurrentJob, result: object) -> object:
    """Return a result; raise ImproperlyConfigured if the middleware did not await it."""
    if is_awaitable(result):
        if isinstance(result, Coroutine):
            result.close()
        raise ImproperlyConfigured(
            f"A middleware around {job.name} returned a coroutine, so the job has not run: "
            "put async_only_middleware or sync_and_async_middleware of "
            "django.utils.decorators above its factory."
        )
    return result
