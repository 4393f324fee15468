"""The measured jobs: next to no work, and countable from outside.

All append to a file in memory: about 1 µs, no traffic with the server, atomic across
processes, so that a job lost or run twice is seen.
"""

from __future__ import annotations

import os
import struct
import time

from django_qless import job

ticks = os.open(
    os.environ["BENCH_TICKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
)


@job
def noop(number: int) -> None:
    """One byte for each execution."""
    os.write(ticks, b".")


@job
async def anoop(number: int) -> None:
    """The same as a coroutine."""
    os.write(ticks, b".")


@job
def stamp(enqueued: float) -> None:
    """Write the seconds from `.delay()` to here, as a double."""
    os.write(ticks, struct.pack("<d", time.time() - enqueued))


@job("entities", entity=True)
def entity(batch: dict[str, list[int]]) -> None:
    """One byte for each entity; each has one payload."""
    os.write(ticks, b"." * len(batch))


@job("entity-batches", entity=True, batch_size=10)
def entities(batch: dict[str, list[int]]) -> None:
    """The same, ten in a run."""
    os.write(ticks, b"." * len(batch))
