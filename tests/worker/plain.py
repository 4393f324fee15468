"""An environment without Django, and a worker in it as a process of its own.

    python -m tests.worker.plain '{"url": "unix://…", "queues": ["a"], …}'

Jobs are the functions below, called with `data["args"]`.
"""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio

from django_qless.core import AsyncClient, Client, Reserved
from django_qless.exceptions import Fail, Retry
from django_qless.job_types.current import CurrentJob, running
from django_qless.job_types.options import Options
from django_qless.job_types.registry import JobType
from django_qless.worker.environment import Limits
from django_qless.worker.interrupt import (
    TaskScope,
    ThreadScope,
    await_in_context,
)
from tests.worker.ledger import note, wait_at

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS: dict[str, JobType] = {}


class PlainEnvironment:
    """Functions by name, arguments as JSON, nothing else.

    `limits`: soft and hard timeout of jobs that have none, by queue. `announcements`:
    a ledger for what would be signals, a line each: what, klass, group. `batches`: one
    for those of batches: what, number of jobs, how many have run.
    """

    def __init__(
        self,
        url: str,
        limits: dict[str, list[float | None]] | None = None,
        announcements: str | None = None,
        batches: str | None = None,
    ) -> None:
        self.url = url
        self.queue_limits = limits or {}
        self.announcements = announcements
        self.batches = batches
        self._client: Client | None = None
        self._aclient: AsyncClient | None = None
        self._threads: ThreadPoolExecutor | None = None

    def check_move(self, current: Any, queue: str) -> None:
        pass

    def has_outbox(self) -> bool:
        return False

    def sweep_outboxes(self) -> None:
        raise NotImplementedError

    def on_start(self) -> None:
        pass

    def restore_lost_config(self) -> None:
        pass

    def preload(self) -> None:
        pass

    def resolve(self, klass: str) -> JobType | None:
        return JOBS.get(klass)

    def detached_entry(self) -> tuple[str, ...]:
        main = sys.modules["__main__"].__spec__
        modules = {made.function.__module__ for made in JOBS.values()}
        if "__main__" in modules and main:
            modules = {*modules, main.name} - {"__main__"}
        return "tests.worker.plain.again", self.url, *sorted(modules)

    def has_detached_jobs(self) -> bool:
        return any(made.options.detached for made in JOBS.values())

    def detached_limit(self, queue: str) -> int:
        return 1

    def limits(self, job_type: JobType, reserved: Reserved) -> Limits:
        options = job_type.options_for(reserved.context)
        soft, hard = self.queue_limits.get(reserved.queue, (None, None))
        return Limits(options.timeout or soft, options.hard_timeout or hard)

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> object:
        if job_type.is_async:
            return asyncio.run(self.arun(job_type, reserved, current))
        return copy_context().run(self._run, job_type, reserved, current)

    def _run(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> object:
        running.set(current)
        args = args_of(reserved, current)
        soft = self.limits(job_type, reserved).soft
        return ThreadScope(reserved.token, soft).run(job_type.function, *args)

    async def arun(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob
    ) -> object:
        if not job_type.is_async:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1000)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads, self.run, job_type, reserved, current
            )
        context = copy_context()
        context.run(running.set, current)
        args = args_of(reserved, current)
        region = TaskScope(reserved.token, self.limits(job_type, reserved).soft)
        return await region.run(await_in_context(context, job_type.function(*args)))

    def encode_result(self, value: object) -> str:
        return "" if value is None else json.dumps(value, ensure_ascii=False)

    def opened(self, reserved: Reserved) -> Reserved:
        return reserved

    def sealed(self, text: str) -> str:
        return text

    def has_listeners(self, what: str) -> bool:
        return bool(what) and self.announcements is not None

    def announce(self, what: str, current: CurrentJob, **details: object) -> None:
        assert self.announcements is not None
        note(self.announcements, what, current.name, details.get("group", "-"))

    async def aannounce(
        self, what: str, current: CurrentJob, **details: object
    ) -> None:
        self.announce(what, current, **details)

    def has_batch_listeners(self) -> bool:
        return self.batches is not None

    def announce_batch(
        self, what: str, jobs: Sequence[CurrentJob], worker: str, **details: int
    ) -> None:
        assert self.batches is not None
        note(self.batches, what, len(jobs), details.get("ran", "-"))

    def announce_exhausted(self, klass: str, batch: Any, errors: Any) -> None:
        if self.announcements:
            told = [
                f"{entity}={','.join(str(payload['n']) for payload in payloads)}"
                for entity, payloads in sorted(batch.items())
            ]
            note(self.announcements, "exhausted", klass, *told)

    def announce_worker(self, what: str, worker: str) -> None:
        if self.announcements is not None:
            note(self.announcements, "worker", what)

    def client(self, alias: str) -> Client:
        if self._client is None:
            self._client = Client(redis.Redis.from_url(self.url))
        return self._client

    def aclient(self, alias: str) -> AsyncClient:
        if self._aclient is None:
            server = redis.asyncio.Redis.from_url(self.url)
            self._aclient = AsyncClient(server)
        return self._aclient

    def before_fork(self) -> None:
        if self._client:
            self._client.close()

    def after_fork(self) -> None:
        self._client = self._aclient = self._threads = None

    def leave_thread(self) -> None:
        pass


def again(url: str, *modules: str) -> PlainEnvironment:
    """Return such an environment in the process of a detached job."""
    for module in modules:
        import_module(module)
    return PlainEnvironment(url)


def args_of(reserved: Reserved, current: CurrentJob) -> Any:
    """Return the arguments of a job; of one of entities {entity: payloads}."""
    if not reserved.batch:
        return json.loads(reserved.data).get("args", ())
    data = [json.loads(job.data) for job in (reserved, *current.companions)]
    return [{each["entity"]: each["payloads"] for each in data}]


def job(**options: Any):
    """Register a function as a job."""

    def register(function):
        made = dataclasses.replace(Options(), **options)
        JOBS[function.__name__] = JobType(
            function.__name__,
            function,
            made,
            is_async=inspect.iscoroutinefunction(function),
        )
        return function

    return register


def current() -> CurrentJob:
    found = running.get()
    assert found is not None
    return found


@job()
def say(ledger: str, *words: str) -> None:
    """Write a line."""
    note(ledger, *words)


@job()
def say_lock(ledger: str, word: str) -> None:
    """Write a line: a word, and until when the lock was given."""
    note(ledger, word, current().reserved.expires)


@job()
def give(value: Any) -> Any:
    """Return what was given."""
    return value


@job()
def give_a_set() -> Any:
    return {1, 2}


@job()
def give_half_a_pair() -> Any:
    return "\udce9"


@job(result_ttl=0)
def give_for_nobody() -> Any:
    return {"a set": {1}}


@job()
def give_much() -> Any:
    return "x" * 70_000


@job()
def stay(ledger: str, gate: str, name: str) -> str:
    """Say that it runs, wait at the gate, say that it is over."""
    note(ledger, "running", name, os.getpid())
    wait_at(gate)
    note(ledger, "over", name)
    return name


@job(backoff=0)
def break_(ledger: str, text: str) -> None:
    note(ledger, "attempt", current().attempt)
    # What neither UTF-8 nor C can carry must not keep the failure from being told.
    raise ValueError(f"{text} \udce9\0")


@job(backoff=3600)
def break_slowly() -> None:
    raise KeyError("once an hour")


@job(backoff=3600)
def break_later(ledger: str) -> None:
    note(ledger, "attempt", current().attempt)
    raise KeyError("once an hour")


@job(backoff=0.4)
def break_soon(ledger: str) -> None:
    note(ledger, "began", time.monotonic())
    raise KeyError("soon again")


@job(backoff=lambda attempt, error: 1 / 0)
def break_rule() -> None:
    raise KeyError("and the rule, too")


@job()
def leave_python() -> None:
    sys.exit("enough")


@job(backoff=3600)
def retry_at_once(ledger: str) -> None:
    note(ledger, "attempt", current().attempt)
    if current().attempt == 1:
        raise Retry(delay=0)


@job()
def give_up() -> None:
    raise Fail("bad-input", "no such file")


@job()
def move_on(ledger: str) -> None:
    note(ledger, "in", current().queue)
    if current().queue == "first":
        current().move_to("second")


@job()
def move_wrongly() -> None:
    current().move_to("second", depends=["nobody"])


@job()
def give_up_at_length() -> None:
    raise Fail("g" * 70_000, "a group that nobody can store")


@job()
def report() -> None:
    """Tell of progress and log, then return."""
    current().progress(0.5, "half")
    current().log("fetched", bytes=812)


@job()
def exit_at_once(ledger: str, code: int) -> None:
    note(ledger, "running", current().jid)
    os._exit(code)


@job(backoff=0)
def fill_sandbox_and_die(ledger: str) -> None:
    sandbox = current().sandbox
    (sandbox / "folder").mkdir()
    (sandbox / "folder" / "file").write_text("left")
    note(ledger, "sandbox", sandbox)
    os.kill(os.getpid(), signal.SIGKILL)


@job()
def segfault(ledger: str) -> None:
    note(ledger, "running", current().jid)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(0)


@job()
def abort() -> None:
    """Die of an error in C."""
    os.abort()


@job()
def have_child(ledger: str, gate: str) -> None:
    """Start a process that lives on, tell its id, wait."""
    child = subprocess.Popen(["sleep", "1000"])
    note(ledger, "grandchild", child.pid, os.getpid())
    wait_at(gate)


@job()
def fork_and_return(ledger: str) -> None:
    """Return twice: once here, once in a copy of this process; tell how that ended."""
    copy = os.fork()
    if copy:
        _, status = os.waitpid(copy, 0)
        note(ledger, "returned", status)


@job()
def hold_gil(seconds: float, ledger: str | None = None) -> str:
    """Keep every other thread of this process from running."""
    if ledger:
        note(ledger, "running")
    old = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
    finally:
        sys.setswitchinterval(old)
    return "held"


@job()
async def block_loop(ledger: str) -> None:
    """Let no other coroutine of this event loop run."""
    note(ledger, "blocked")
    time.sleep(1000)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def main() -> int:
    from django_qless.worker.log import configure_logging
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.server_checks import CannotStart
    from django_qless.worker.worker import Worker

    given = json.loads(sys.argv[1])
    configure_logging(given.pop("verbosity", 2))
    environment = PlainEnvironment(
        given.pop("url"),
        given.pop("limits", None),
        given.pop("announcements", None),
        given.pop("batches", None),
    )
    for name in ("queues", "exclude"):
        given[name] = tuple(given.get(name, ("*",) if name == "queues" else ()))
    try:
        return Worker(environment, WorkerOptions(**given)).run()
    except CannotStart as error:
        print(error, file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
