"""Server time and Redis commands of a job in the Lua core, beside the floor's.

The core is called with its raw arguments through redis-py, so that nothing but the
server's own work is in the figures: CPU time from INFO, commands from INFO commandstats.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import redis

from .floor import Floor
from .report import Counts, Figure, Goal
from .server import Server, Usage

ARTEFACT = Path(__file__).parents[1] / "django_qless" / "core" / "qless.lua"
DATA = '{"v":1,"args":[123456]}'
SHAPE = '{"queue":"bench","klass":"app.jobs.noop","retries":"3"}'
BATCH = 50
HISTORY = 1000  # completed jobs kept in the steady state
HELD = "0.001"  # seconds for which a job lay in its worker's hands, as it tells

TABLE = "Server time of a job: put, pop, complete (µs)"
JOINED = "one at a time, settled with the next reservation"
COMMANDS = "Redis commands per job, in batches of 50"


class Core:
    """The Lua core, called as django_qless calls it."""

    def __init__(self, client: redis.Redis, *, joined: bool = False) -> None:
        """`joined`: single jobs are settled in the call that reserves the next one."""
        self._client = client
        self._joined = joined
        self._request = 0
        self._me = uuid.uuid4().hex[:12]
        self._heads = self._load_library()

    def _load_library(self) -> dict[str, tuple[Any, ...]]:
        body = ARTEFACT.read_text()
        name = f"qless_{hashlib.sha1(body.encode()).hexdigest()[:12]}"
        library = f"#!lua name={name}\n{body}\nQless.register('{name}')\n"
        self._client.execute_command("FUNCTION", "LOAD", "REPLACE", library)
        return {
            kind: ("FCALL", f"{name}_{kind}", 2) for kind in ("read", "write", "drain")
        }

    def call(self, kind: str, command: str, *arguments: Any) -> Any:
        """One call with the server's clock and, if it writes, a request id."""
        request = ""
        if kind != "read":
            self._request += 1
            request = f"{self._me}:{self._request}"
        return self._client.execute_command(
            *self._heads[kind], "ql:!", "ql:meta", command, "*", request, *arguments
        )

    def keep_completed(self, count: int) -> None:
        self.call("write", "config.set", "jobs-history-count", count)

    def fill(self, count: int, batch: int) -> None:
        """Put `count` jobs, `batch` to a call."""
        if batch == 1:
            for _ in range(count):
                self.call("write", "put", "", SHAPE, "jid data", _jid(), DATA)
        else:
            for _ in range(count // batch):
                rows: list[Any] = []
                for _ in range(batch):
                    rows += (_jid(), DATA)
                self.call("write", "put.many", "", SHAPE, "jid data", *rows)

    def work_off(self, count: int, batch: int) -> None:
        """Reserve and complete `count` jobs, `batch` to a call, as a worker does."""
        if batch == 1 and not self._joined:
            for _ in range(count):
                [job] = self.settle("worker", 0, 1, 1, "bench")
                self.settle("worker", 1, job[0], job[4], HELD, "complete", 0, 0, 0)
        else:
            self._settle_and_reserve(count, batch)

    def settle(self, *arguments: Any) -> list[list[bytes]]:
        """Return the fields of each reserved job."""
        refused, jobs, *_ = self.call("drain", "settle", *arguments)
        if refused:
            raise RuntimeError(f"the core refuses to settle: {refused[:3]}")
        return jobs

    def _settle_and_reserve(self, count: int, batch: int) -> None:
        """Finish jobs and reserve the next ones, in one round trip."""
        settlements: list[Any] = []
        while count > 0 or settlements:
            wanted = min(batch, count)
            done = len(settlements) // 5
            jobs = self.settle("worker", done, *settlements, wanted, 1, "bench")
            settlements = []
            for job in jobs:
                settlements += (job[0], job[4], HELD, "complete", 0)
            count -= wanted


def _jid() -> str:
    """Return a job id as long as those of django_qless."""
    return uuid.uuid4().hex[:20]


class Queue(Protocol):
    """Common base of the floor and the core."""

    def fill(self, count: int, batch: int) -> None: ...
    def work_off(self, count: int, batch: int) -> None: ...


def measure(server: Server, *, quick: bool) -> Iterator[Figure | Counts]:
    """Server CPU per job in every form, each beside the floor in the same form."""
    singles, batched = (1000, 5000) if quick else (4000, 20000)
    with server.placement.measured():
        for form, count, batch, limit in (
            ("one call each", singles, 1, 1.30),
            (JOINED, singles, 1, 1.30),
            (f"batches of {BATCH}", batched, BATCH, 1.75),
        ):
            floor, commands = _cost(server, Floor, count, batch)
            if batch > 1:
                yield Counts(COMMANDS, "floor", commands)
            goal = Goal(at_most=limit, of_floor=True)
            for state in ("", f", {HISTORY:,} completed kept"):
                core = _core(bool(state), joined=form == JOINED)
                used, commands = _cost(server, core, count, batch)
                yield Figure(TABLE, f"{form}{state}", used, floor, goal)
                if batch > 1:
                    yield Counts(COMMANDS, f"django_qless{state}", commands)


def _core(steady: bool, *, joined: bool) -> Callable[[redis.Redis], Core]:
    """Return a factory of cores; a steady one has a full history of completed jobs."""

    def make(client: redis.Redis) -> Core:
        core = Core(client, joined=joined)
        if steady:
            core.keep_completed(HISTORY)
            core.fill(HISTORY + 2 * BATCH, BATCH)
            core.work_off(HISTORY + 2 * BATCH, BATCH)
        return core

    return make


def _cost(
    server: Server, make: Callable[[redis.Redis], Queue], count: int, batch: int
) -> tuple[float, dict[str, float]]:
    """Server CPU in µs, and commands, to put, pop and complete one job."""
    server.empty()
    queue = make(server.client)
    queue.fill(batch, batch)
    queue.work_off(batch, batch)
    before = server.usage()
    queue.fill(count, batch)
    queue.work_off(count, batch)
    used: Usage = server.usage() - before
    per_job = {name: calls / count for name, calls in used.commands.items()}
    return used.cpu / count * 1e6, per_job
