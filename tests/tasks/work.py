"""Tasks for the tests."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from django_qless import Retry, current_job
from tests.tasks.installed import task

#: What Tasks have noted, in the process of the tests.
noted: list[Any] = []


class Unpicklable(Exception):
    """Cannot be made of its arguments again, and holds what cannot be copied."""

    def __init__(self, *, secret: object) -> None:
        super().__init__("two\nlines: of text")
        self.secret = secret


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task
async def aadd(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


@task
def returns_coroutine(a: int) -> Any:
    return aadd.func(a)


@task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    return [list(args), kwargs]


@task
def nothing() -> None:
    """Return nothing."""


@task
def note(text: str) -> None:
    noted.append(text)


@task
def fails(text: str = "no") -> None:
    raise ValueError(text)


@task
async def fails_in_a_group() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(afails.func())
        tasks.create_task(afails.func())


@task
async def afails(text: str = "no") -> None:
    raise ValueError(text)


@task
def fails_in_a_complicated_way() -> None:
    raise Unpicklable(secret=lambda: None) from KeyError("cause")


@task
def leaves() -> None:
    sys.exit(3)


@task
def interrupted() -> None:
    raise KeyboardInterrupt


@task
async def ainterrupted() -> None:
    raise KeyboardInterrupt


@task
def returns(kind: str) -> Any:
    return {"set": {1}, "object": object(), "tuple": (1, (2,)), "zero": 0}[kind]


@task
def returns_a_lot() -> str:
    return "x" * 100_000


@task(takes_context=True)
def with_context(context: Any, text: str) -> list[Any]:
    result = context.task_result
    return [text, context.attempt, result.id, result.status.value, result.worker_ids]


@task(sensitive=["password", "return"])
def log_in(user: str, password: str = "") -> str:
    return f"{user} {password}"


@task(takes_context=True, sensitive="text")
def in_secret(context: Any, text: str, number: int = 0) -> str:
    return text


@task(takes_context=True)
async def awith_context(context: Any) -> list[Any]:
    return [context.attempt, context.task_result.status.value]


@task(takes_context=True, retries=3, backoff=0)
def succeeds_at(context: Any, attempt: int) -> list[str]:
    if context.attempt < attempt:
        raise ValueError(f"attempt {context.attempt}")
    return [error.exception_class_path for error in context.task_result.errors]


@task(takes_context=True, retries=3, backoff=0)
async def asucceeds_at(context: Any, attempt: int) -> int:
    if context.attempt < attempt:
        raise ValueError(f"attempt {context.attempt}")
    number: int = context.attempt
    return number


@task(retries=1)
def asks_to_be_run_again() -> None:
    raise Retry(delay=0, message="not yet")


@task(takes_context=True)
def dies(context: Any) -> int:
    if context.attempt == 1:
        os._exit(1)
    number: int = context.attempt
    return number


@task
def is_taken_away() -> None:
    """Fail after an operator has canceled it."""
    from django_qless import jobs

    jobs[current_job().jid].cancel()  # type: ignore[union-attr]
    raise ValueError("too late")


@task(timeout=30, tags=["slow"], retries=2, backoff=[1, 2], result_ttl=60)
def with_options() -> dict[str, Any]:
    job = current_job()
    assert job is not None
    return {"tags": job.tags, "retries": job.retries_left}


@task(retries=3, backoff=0, fail_on=[ValueError])
def fails_for_good() -> None:
    raise ValueError


@task(unique=True)
def only_one(a: int, b: int = 1) -> int:
    return a + b


def plain() -> None:
    """No Task."""


def renamed() -> None:
    """No Task, either."""


not_a_task = "not a Task"
