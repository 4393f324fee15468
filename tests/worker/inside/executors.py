"""A child without its parent: the test gives the commands, and reads the shared state."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from django_qless.core import Client
from django_qless.core.commands.entities import Payload
from django_qless.core.put import new_jid
from django_qless.exceptions import Interrupted
from django_qless.worker.log import REPORT, logger
from django_qless.worker.options import WorkerOptions
from django_qless.worker.pools import POOLS, shared_state
from django_qless.worker.pools.child_process import ChildProcess
from django_qless.worker.pools.shared_state import SharedState
from django_qless.worker.worker import Worker
from tests.real_servers import poll
from tests.worker.declare import job
from tests.worker.inside.plain import PlainEnvironment
from tests.worker.processes import whole_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from django_qless.core import Job
    from django_qless.worker.pools.shared_state import HeldJob
    from tests.real_servers import Server


@job()
def wait_for(latch: str) -> None:
    """Wait until there is this file."""
    while not os.path.exists(latch):
        time.sleep(0.002)


@job()
async def await_(latch: str) -> None:
    """Wait until there is this file."""
    while not os.path.exists(latch):
        await asyncio.sleep(0.002)


@job(entity=True)
def wait_for_entity(batch: dict[str, list[str]]) -> None:
    """Wait until there is the file of one of the entities."""
    while not any(os.path.exists(latch) for [latch] in batch.values()):
        time.sleep(0.002)


@job(entity=True)
async def await_entity(batch: dict[str, list[str]]) -> None:
    """Wait until there is the file of one of the entities."""
    while not any(os.path.exists(latch) for [latch] in batch.values()):
        await asyncio.sleep(0.002)


@job()
def run_on(latch: str) -> str:
    """Wait for the file, whatever is said; return what was."""
    said = ""
    while not os.path.exists(latch):
        try:
            time.sleep(0.002)
        except Interrupted as error:
            said += type(error).__name__
    return said


@job(hard_timeout=60, backoff=7)
async def await_shortly(latch: str) -> None:
    """Have a limit beyond which the process is killed."""
    await await_(latch)


class LoneChild:
    """The process of a child; jobs are whatever the test module has registered."""

    def __init__(self, server: Server, folder: Path, pool: str, **options: Any) -> None:
        self.client = Client(server.client())
        self.log = folder / "log"
        self._latch = folder / "latch"
        chosen = WorkerOptions(pool=pool, queues=("q",), **options)
        self.worker = Worker(PlainEnvironment(server.url), chosen)
        self.shared = SharedState(slots=max(512, 4 * chosen.concurrency))
        self.shared.floats[shared_state.HEARTBEAT_INTERVAL] = 10.0
        self.shared.ints[shared_state.CAPACITY] = chosen.concurrency
        self.bell, button = os.pipe()
        for end in (self.bell, button):
            os.set_blocking(end, False)

        def live(shared: SharedState) -> None:
            handler = logging.FileHandler(self.log)
            handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)
            self.worker.environment.after_fork()
            POOLS[pool].run(self.worker, shared, button)

        #: Whether its log is to tell of an error that nobody expects.
        self.has_defect = False
        self.process = ChildProcess(live, self.shared, ())
        os.close(button)

    def close(self) -> None:
        """End it for certain."""
        if self.process.status is None:
            self.process.kill()
            self.wait()
        self.process.close()
        os.close(self.bell)
        self.client.close()
        assert self.has_defect == (REPORT in self.output), self.output

    def wait(self) -> int:
        """Return its exit code, when it has ended."""
        poll(self.process.watch, what=f"the child ends: {self.output}")
        assert self.process.status is not None
        return self.process.status

    @property
    def output(self) -> str:
        return whole_lines(self.log)

    # Orders.

    def command(self, field: int, value: int = 1) -> None:
        self.process.command(field, value)

    def drop(self, tokens: Collection[str]) -> None:
        self.process.drop(tokens)

    def terminate(self) -> None:
        """Send a TERM that is not the parent's."""
        os.kill(self.process.pid, signal.SIGTERM)

    # The shared state.

    def word(self, word: int) -> int:
        return self.shared.ints[word]

    def running(self, count: int) -> list[HeldJob]:
        """Return the jobs that run, when there are so many."""
        found: list[HeldJob] = []

        def are_as_many() -> bool:
            found[:] = self.shared.held_jobs().running
            return len(found) == count

        poll(are_as_many, what=f"{count} run: {self.shared.held_jobs()} {self.output}")
        return found

    def holds_nothing(self) -> None:
        """Return when nothing is held."""
        poll(lambda: not self.shared.held_jobs().all, what="nothing is held")

    # Jobs.

    @property
    def latch(self) -> str:
        """What the jobs above wait for."""
        return str(self._latch)

    def open(self) -> None:
        """Let them go on, for ever."""
        self._latch.touch()

    def put(self, klass: str, *args: Any, **options: Any) -> str:
        """Put a job; return its jid."""
        jid = options.pop("jid", None) or new_jid()
        self.client.put(
            "", "q", jid, klass, json.dumps({"v": 1, "args": args}), **options
        )
        return jid

    def push(self, klass: str, latches: Sequence[Path], batch: int) -> None:
        """Push a payload onto an entity for each latch."""
        payloads = [
            Payload(
                at.name, json.dumps({"v": 1, "entity": at.name}), json.dumps(str(at))
            )
            for at in latches
        ]
        self.client.push("", "q", klass, payloads, batch=batch)

    def when(self, jid: str, state: str) -> Job:
        """Return a job as soon as it is in this state."""

        def look() -> Job | None:
            job = self.client.get(jid)
            return job if job and job.state == state else None

        deadline = time.monotonic() + 20
        while not (found := look()):
            if time.monotonic() > deadline:
                job = self.client.get(jid)
                raise AssertionError(f"{job} is not {state}: {self.output}")
            time.sleep(0.005)
        return found
