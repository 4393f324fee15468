"""Jobs enqueued, held and failed through the core's calls, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_qless.core import Put, Settlement

if TYPE_CHECKING:
    from django_qless.core import Client

WORKER = "worker-of-a-test"


def put(client: Client, queue: str, *jids: str, **options: Any) -> None:
    """Put jobs of the type `shop.Send`, if no other `klass` is given."""
    klass = options.pop("klass", "shop.Send")
    client.put_many("", [Put(jid, queue, klass, "{}", **options) for jid in jids])


def take(client: Client, queue: str, number: int = 1) -> list[str]:
    """Let a worker hold a number of jobs of a queue; return their ids."""
    return [held.jid for held in client.settle(WORKER, [], number, [queue]).jobs]


def fail(
    client: Client,
    number: int,
    group: str = "g",
    queue: str = "q",
    message: str = "it broke",
    **options: Any,
) -> list[str]:
    """Let a number of new jobs fail; return their ids."""
    jids = [f"{group}-{queue}-{n}" for n in range(number)]
    put(client, queue, *jids, **options)
    ended: list[Settlement] = []
    while True:
        held = client.settle(WORKER, ended, 250, [queue]).jobs
        if not held:
            return jids
        ended = [
            Settlement(job.jid, job.token, "fail", (group, message)) for job in held
        ]
