"""Jobs that note each of their runs in a file, and a schedule for each alias."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from django_qless import current_job, job
from tests.six_nodes import QUEUES


def record(name: str) -> None:
    """Add a line to the file: name, queue, worker, and the time at which it ran."""
    running = current_job()
    assert running is not None
    line = f"{name} {running.queue} {os.environ['WORKER']} {time.time()}\n"
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, line.encode())
    os.close(ledger)


@job
def note(name: str) -> None:
    """Record a run under a name."""
    record(name)


def ticking(queue: str) -> Callable[[], None]:
    """Return a job of this queue, each second, every one of whose ticks counts."""

    def tick() -> None:
        running = current_job()
        assert running is not None
        record(running.jid)

    # As if it stood in the module, where a dot would make it a method.
    tick.__qualname__ = f"tick_{queue.partition('.')[0]}"
    return job(queue, name=f"tick-{queue}", every=1, missed="all")(tick)


TICKS = [ticking(queue) for queue in QUEUES]
