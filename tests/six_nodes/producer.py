"""A process that enqueues jobs until it is told to end, and notes what was acknowledged.

    python -m tests.six_nodes.producer FILE PAUSE blocking|asyncio

Lines of the file: `ok NAME QUEUE` for a job that was acknowledged, `refused QUEUE ERROR`
for a call that failed, and of waits for jobs `waiting NAME`, then `waited NAME`,
`in-vain NAME ERROR` without a result, or `broken NAME ERROR` without an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import django

django.setup()

from django_qless import workflow  # noqa: E402
from django_qless.exceptions import NoResult, QlessError  # noqa: E402
from tests.six_nodes import QUEUES  # noqa: E402
from tests.six_nodes.jobs import note  # noqa: E402

#: Seconds in which a job that is waited for must have ended.
PATIENCE = 120.0

ended = threading.Event()


class Notes:
    """The file of what was acknowledged; each line is written at once."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *lines: str) -> None:
        """Write lines."""
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


def numbers(pause: float) -> Iterator[int]:
    """Yield numbers, with pauses, until the process is told to end."""
    for number in itertools.count():
        if ended.wait(pause):
            return
        yield number


def singles(notes: Notes, queue: str, pause: float) -> None:
    """Enqueue one job after the other; every seventh is to run a little later."""
    for number in numbers(pause):
        name = f"s{number}-{queue}"
        delayed = note.using(queue=queue, delay=0.5 if number % 7 == 0 else 0)
        with noting(notes, queue, name):
            delayed.delay(name)


def workflows(notes: Notes, queue: str, pause: float) -> None:
    """Enqueue workflows: two jobs, and one after both."""
    for number in numbers(3 * pause):
        names = [f"w{number}{part}-{queue}" for part in "abc"]
        flow = workflow(f"w{number}")
        jobs = [note.using(queue=queue).args(name) for name in names]
        flow.add(jobs[2], after=[flow.add(job) for job in jobs[:2]])
        with noting(notes, queue, *names):
            flow.enqueue()


def waits(notes: Notes, queue: str, pause: float) -> None:
    """Enqueue a job, wait for its end, and so on."""
    for number in numbers(pause):
        name, handle = f"h{number}-{queue}", None
        with noting(notes, queue, name):
            handle = note.using(queue=queue).delay(name)
        if handle is not None:
            notes.write(f"waiting {name}")
            try:
                handle.wait(timeout=PATIENCE)
            except NoResult as error:
                notes.write(f"in-vain {name} {type(error).__name__}")
            except QlessError as error:
                notes.write(f"broken {name} {type(error).__name__}")
            else:
                notes.write(f"waited {name}")


async def asynchronous(notes: Notes, queue: str, pause: float) -> None:
    """Enqueue one job after the other by asyncio."""
    for number in itertools.count():
        await asyncio.sleep(pause)
        if ended.is_set():
            return
        name = f"a{number}-{queue}"
        with noting(notes, queue, name):
            await note.using(queue=queue).adelay(name)


@contextmanager
def noting(notes: Notes, queue: str, *names: str) -> Iterator[None]:
    """Note jobs as acknowledged when the block ends; an error, if it does not."""
    try:
        yield
    except QlessError as error:
        notes.write(f"refused {queue} {type(error).__name__}")
    else:
        notes.write(*(f"ok {name} {queue}" for name in names))


def blocking(notes: Notes, pause: float) -> None:
    """Run a thread for each queue and kind of producer."""
    kinds = (singles, workflows, waits)
    with ThreadPoolExecutor(len(QUEUES) * len(kinds)) as pool:
        threads = [
            pool.submit(produce, notes, queue, pause)
            for queue in QUEUES
            for produce in kinds
        ]
    for thread in threads:
        thread.result()


async def in_a_loop(notes: Notes, pause: float) -> None:
    """Run a task for each queue."""
    await asyncio.gather(*(asynchronous(notes, queue, pause) for queue in QUEUES))


def main() -> None:
    """Produce until the signal TERM comes."""
    path, pause, kind = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    notes = Notes(path)
    if kind == "asyncio":
        asyncio.run(in_a_loop(notes, float(pause)))
    else:
        blocking(notes, float(pause))


if __name__ == "__main__":
    main()
