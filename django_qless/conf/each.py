"""Calls to all namespaces of an alias at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django_qless.conf.connections import connections
from django_qless.core import AsyncClient, Client, QlessError

T = TypeVar("T")

#: Namespaces that are asked at the same time.
MOST = 32


def ask_each(
    names: Sequence[str],
    ask: Callable[[Client], T],
    client_of: Callable[[str], Client] = connections.__getitem__,
) -> list[T | QlessError]:
    """Return what each of these namespaces answers, or the error of its server."""

    def answer(name: str) -> T | QlessError:
        try:
            return ask(client_of(name))
        except QlessError as error:
            return error

    if len(names) == 1:
        return [answer(names[0])]
    with ThreadPoolExecutor(min(len(names), MOST), "qless-namespaces") as threads:
        return list(threads.map(answer, names))


async def aask_each(
    names: Sequence[str], ask: Callable[[AsyncClient], Awaitable[T]]
) -> list[T | QlessError]:
    """Asynchronous version of `ask_each`."""

    async def answer(name: str) -> T | QlessError:
        try:
            return await ask(connections.aclient(name))
        except QlessError as error:
            return error

    return list(await asyncio.gather(*map(answer, names)))


def answers(found: Sequence[T | QlessError]) -> list[T]:
    """Return the answers; raise the error of the first server that gave none."""
    good: list[T] = []
    for each in found:
        if isinstance(each, QlessError):
            raise each
        good.append(each)
    return good
