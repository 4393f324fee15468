"""Jobs for the tests: put with the least that they need, and taken."""

from __future__ import annotations

from collections.abc import Callable

from django_qless.core import Client

#: Sets the clock of a client to so many seconds after the beginning.
Clock = Callable[[float], None]


def put(client: Client, jid: str = "job", **options: object) -> str | None:
    """Put a job with the least that it needs."""
    return client.put("", "mail", jid, "app.send", "{}", **options)


def pop(client: Client, worker: str = "worker") -> tuple[str, str]:
    """Take one job and return its jid and token."""
    (job,) = client.settle(worker, [], 1, ["mail"]).jobs
    return job.jid, job.token
