"""Workers as processes of their own, and what their jobs tell."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.put import new_jid
from tests.permissions import url_of
from tests.real_servers import poll
from tests.worker.ledger import Gate, Ledger
from tests.worker.processes import WorkerProcess, is_alive, no_new_connections
from tests.worker.stage import Stage

__all__ = ["WorkerProcess", "is_alive", "no_new_connections"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from django_qless.core import Job
    from tests.real_servers import Server


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
            worker = WorkerProcess(
                options.pop("url", url_of(server, "worker")), log, **options
            )
            stack.callback(worker.close)
            return worker

        yield start


@pytest.fixture
def stage(server: Server, tmp_path: Path, pool: str) -> Iterator[Stage]:
    """A stage for workers with the pool, whose name is another fixture."""
    with Stage(server, tmp_path, pool) as stage:
        yield stage


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that runs."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


@pytest.fixture
def put(client: Client) -> Callable[..., str]:
    """Puts a job of the plain environment; returns its jid."""

    def put(klass: str, *args: Any, queue: str = "q", **options: Any) -> str:
        data = json.dumps({"v": 1, "args": args})
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
