"""Batches that are sent together, of which replicas are late with several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from django_qless.core import NotReplicated, QlessError
from django_qless.enqueue.at_once import asend_each, send_each, send_in_turn


class Batch:
    """A batch, the sending of which ends like this."""

    def __init__(self, end: QlessError | None = None) -> None:
        self.end = end

    def send(self) -> None:
        if self.end:
            raise self.end

    async def asend(self) -> None:
        self.send()


def late(replicas: int, handle: str) -> NotReplicated:
    error = NotReplicated(f"{replicas} of 3", replicas=replicas)
    error.handles = (handle,)
    return error


@pytest.mark.parametrize(
    "send",
    [
        send_each,
        lambda batches: send_in_turn(batches, lambda batch: batch.send()),
        lambda batches: asyncio.run(asend_each(batches)),
    ],
)
def test_the_worst_is_raised_and_late_replicas_as_one(
    send: Callable[[Any], None],
) -> None:
    send([Batch(), Batch()])
    with pytest.raises(NotReplicated) as raised:
        send([Batch(late(2, "a")), Batch(), Batch(late(1, "b"))])
    assert (raised.value.replicas, raised.value.handles) == (1, ("a", "b"))
    with pytest.raises(QlessError, match="broken"):
        send([Batch(late(0, "a")), Batch(QlessError("broken"))])
