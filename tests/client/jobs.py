"""What many tests of the client share: jobs, types of fixtures, an asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import redis.asyncio

from django_qless.core import AsyncClient, Client

if TYPE_CHECKING:
    from tests.real_servers import Server

#: Sets the clock of a client to a number of seconds after the beginning.
Clock = Callable[[float], None]

#: Makes clients: the fixture `valkey`.
Make = Callable[..., Client]


def put(client: Client, jid: str = "job", **options: object) -> str | None:
    """Put a job with the least that it needs."""
    return client.put("", "mail", jid, "app.send", "{}", **options)


def pop(client: Client, worker: str = "worker") -> tuple[str, str]:
    """Take one job and return its jid and token."""
    (job,) = client.settle(worker, [], 1, ["mail"]).jobs
    return job.jid, job.token


def in_loop(
    server: Server,
    body: Callable[[AsyncClient], Coroutine[Any, Any, None]],
    path: str = "",
    **options: Any,
) -> None:
    """Run a coroutine function with an asyncio client of the server, or of a path."""

    async def run() -> None:
        user = redis.asyncio.Redis(unix_socket_path=path or server.socket)
        async with AsyncClient(user, **options) as client:
            await asyncio.wait_for(body(client), 60)
        await user.aclose()

    asyncio.run(run())
