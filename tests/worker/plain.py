"""An environment without Django, and a worker in it as a process of its own.

    python -m tests.worker.plain '{"url": "unix://…", "queues": ["a"], …}'

Jobs are the functions below, called with `data["args"]`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import redis

from django_qless.core import Client, Reserved
from django_qless.current import CurrentJob, running
from django_qless.exceptions import Fail, Retry
from django_qless.options import Options
from django_qless.registry import JobType
from tests.worker.ledger import note, wait_at

JOBS: dict[str, JobType] = {}


class PlainEnvironment:
    """Functions by name, arguments as JSON, nothing else."""

    def __init__(self, url: str, engine: str = "auto") -> None:
        self.url = url
        self.engine = engine
        self._client: Client | None = None

    def at_start(self) -> None:
        pass

    def resolve(self, klass: str) -> JobType | None:
        return JOBS.get(klass)

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> object:
        token = running.set(current)
        try:
            return job_type.function(*json.loads(reserved.data).get("args", ()))
        finally:
            running.reset(token)

    def encode_result(self, value: object) -> str:
        return "" if value is None else json.dumps(value, ensure_ascii=False)

    def client(self, alias: str) -> Client:
        if self._client is None:
            self._client = Client(redis.Redis.from_url(self.url), engine=self.engine)
        return self._client

    def before_fork(self) -> None:
        if self._client:
            self._client.close()

    def after_fork(self) -> None:
        self._client = None


def job(**options: Any):
    """Register a function as a job."""

    def register(function):
        made = dataclasses.replace(Options(), **options)
        JOBS[function.__name__] = JobType(function.__name__, function, made)
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


@job()
def segfault(ledger: str) -> None:
    note(ledger, "running", current().jid)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(0)


@job()
def have_child(ledger: str, gate: str) -> None:
    """Start a process that lives on, tell its id, wait."""
    child = subprocess.Popen(["sleep", "1000"])
    note(ledger, "grandchild", child.pid, os.getpid())
    wait_at(gate)


@job()
def fork_and_return(ledger: str) -> None:
    """Return twice: once here, once in a copy of this process."""
    copy = os.fork()
    if copy:
        os.waitpid(copy, 0)
        note(ledger, "returned")


@job()
def hold_gil(seconds: float) -> str:
    """Keep every other thread of this process from running."""
    old = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
    finally:
        sys.setswitchinterval(old)
    return "held"


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def main() -> int:
    from django_qless.worker.log import show
    from django_qless.worker.options import WorkerOptions
    from django_qless.worker.preflight import CannotWork
    from django_qless.worker.worker import Worker

    given = json.loads(sys.argv[1])
    show(given.pop("verbosity", 2))
    environment = PlainEnvironment(given.pop("url"), given.pop("engine", "auto"))
    for name in ("queues", "exclude"):
        given[name] = tuple(given.get(name, ("*",) if name == "queues" else ()))
    try:
        return Worker(environment, WorkerOptions(**given)).run()
    except CannotWork as error:
        print(error, file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())
