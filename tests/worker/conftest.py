"""Workers as processes of their own, and what their jobs tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.jid import new_jid
from tests.servers import poll
from tests.worker.ledger import Gate, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_qless.core import Job
    from tests.servers import Server

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """A worker in the plain environment, run by another Python."""

    def __init__(self, url: str, log: Path, **options: Any) -> None:
        self.log = log
        arguments = json.dumps({"url": url, **options})
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.plain", arguments],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text()

    def signal(self, name: str) -> None:
        self.process.send_signal(signal.Signals[f"SIG{name}"])

    def wait(self, seconds: float = 30) -> int:
        """Return the exit code, when it has ended."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker goes on: {self.output}") from None

    def wait_for_log(self, text: str) -> None:
        """Return when the worker has logged this."""
        poll(lambda: text in self.output, what=f"{text!r} in the worker's log")

    def close(self) -> None:
        """End it for certain; its children end with it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(server.client())
    yield client
    client.close()


@pytest.fixture
def start_worker(
    server: Server, tmp_path: Path
) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts workers; ends those that still run after the test."""
    with ExitStack() as stack:
        count = 0

        def start(**options: Any) -> WorkerProcess:
            nonlocal count
            count += 1
            log = tmp_path / f"worker-{count}.log"
            worker = WorkerProcess(options.pop("url", server.url), log, **options)
            stack.callback(worker.close)
            return worker

        yield start


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def put(client: Client) -> Callable[..., str]:
    """Puts a job of the plain environment; returns its jid."""

    def put(klass: str, *args: Any, queue: str = "q", **options: Any) -> str:
        data = json.dumps({"args": args})
        jid = options.pop("jid", None) or new_jid()
        client.put("", queue, jid, klass, data, **options)
        return jid

    return put


@pytest.fixture
def job_when(client: Client) -> Callable[[str, str], Job]:
    """Returns a job as soon as it is in a state."""

    def wait(jid: str, state: str) -> Job:
        def look() -> Job | None:
            job = client.get(jid)
            return job if job and job.state == state else None

        return poll(look, what=f"{jid} is {state}: {client.get(jid)}", seconds=30)

    return wait


@contextmanager
def no_new_connections(client: Client) -> Iterator[None]:
    """Break all connections but one's own, and refuse new ones, for a while."""
    redis = client.redis
    limit = redis.config_get("maxclients")["maxclients"]
    redis.config_set("maxclients", 1)
    try:
        for known in redis.client_list():
            if known["id"] != str(redis.client_id()):
                redis.client_kill_filter(_id=known["id"])
        yield
    finally:
        redis.config_set("maxclients", limit)


def is_alive(pid: int) -> bool:
    """Return whether this process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
