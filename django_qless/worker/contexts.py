"""Something awaited in a context of its own, without a task of its own."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def awaited_in(context: Context, awaitable: Awaitable[T]) -> Generator[Any, Any, T]:
    """Await this; what it sets in context variables is set in `context` only.

    A task does the same, and takes several times as long to begin and to end.
    """
    coroutine: Coroutine[Any, Any, T]
    if isinstance(awaitable, types.CoroutineType):
        coroutine = awaitable
    else:
        coroutine = _coroutine(awaitable)
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            awaited = context.run(step, value)
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            value = yield awaited
            step = coroutine.send
        except GeneratorExit:
            context.run(coroutine.close)
            raise
        except BaseException as error:  # noqa: BLE001  it is for the coroutine to judge
            step, value = coroutine.throw, error


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable
