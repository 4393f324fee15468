"""Entities of a queue, pushed and brought into each list through the core's calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django_qless.core import Settlement
from django_qless.core.commands.entities import Payload
from tests.admin.stock import WORKER

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved

QUEUE = "orders"
KLASS = "shop.orders.sync"
ERROR = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: lost'


def push(
    client: Client,
    entity: str,
    *payloads: Any,
    due: float | None = None,
    klass: str = KLASS,
    queue: str = QUEUE,
    retries: int = 5,
) -> None:
    """Push payloads with the scores 1, 2, 3 …; by default one, the number 1."""
    head = json.dumps({"v": 1, "entity": entity})
    pushed = [
        Payload(entity, head, json.dumps(each), score, due)
        for score, each in enumerate(payloads or (1,), start=1)
    ]
    client.push("", queue, klass, pushed, retries=retries)


def take(client: Client, number: int = 1) -> list[Reserved]:
    """Let a worker hold a number of entities."""
    return client.settle(WORKER, [], number, [QUEUE]).jobs


def settle(client: Client, job: Reserved, verb: str, *args: str | int) -> None:
    """End the run of an entity as a worker does."""
    ended = Settlement(job.jid, job.token, verb, args)
    refused = client.settle(WORKER, [ended], 0, ["-"]).refused
    assert not refused, refused


def retry(client: Client, entity: str, *payloads: Any, delay: int = 600) -> None:
    """Let the run of a new entity fail; it is tried again later."""
    push(client, entity, *payloads)
    (job,) = take(client)
    settle(client, job, "retry", delay, "OSError", ERROR)


def die(client: Client, entity: str, *payloads: Any) -> None:
    """Let each payload of a new entity die."""
    push(client, entity, *payloads)
    for _ in payloads or (1,):
        (job,) = take(client)
        settle(client, job, "fail", "OSError", ERROR)


def url(page: str = "change", queue: str = QUEUE, **query: Any) -> str:
    """Return the path of a page about entities of a queue."""
    path = f"/admin/django_qless/entity/{queue}/{page}/"
    return f"{path}?{urlencode(query, doseq=True)}" if query else path
