"""Tasks on a real server, and a worker's doings in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from tests.in_process import in_loop, in_main_thread, worker
from tests.tasks import installed, work

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved, Settlement
    from django_qless.worker.execution import Execution
    from tests.real_servers import Server

WORKER = "test-worker"


def in_thread(execution: Execution, job: Reserved) -> Settlement:
    """Run a job as the pool of threads does; raise what ends the thread."""

    def run() -> Settlement:
        try:
            return execution.perform(job)
        finally:
            execution.environment.leave_thread()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


WAYS = {"main": in_main_thread, "thread": in_thread, "loop": in_loop}


def tasks_setting(**options: Any) -> dict[str, Any]:
    """Return TASKS with these OPTIONS."""
    return {
        alias: {**one, "OPTIONS": options} for alias, one in installed.TASKS.items()
    }


@pytest.fixture
def qless(server: Server) -> Iterator[Client]:
    """The client of the default alias, whose Tasks are those of the default backend."""
    aliases = {
        "default": {"LOCATION": server.url},
        "other": {"LOCATION": server.url, "PREFIX": "other:"},
    }
    work.noted.clear()
    with override_settings(QLESS=aliases, TASKS=tasks_setting()):
        yield connections["default"]


@pytest.fixture
def drain(qless: Client, django_db_blocker: Any) -> Callable[..., int]:
    """Run Tasks in this process until the queues are empty; return how many runs."""
    return worker(WAYS["main"], django_db_blocker)


@pytest.fixture(params=WAYS)
def each_drain(
    qless: Client, django_db_blocker: Any, request: pytest.FixtureRequest
) -> Callable[..., int]:
    """Do the same in each of the ways in which pools run jobs."""
    return worker(WAYS[request.param], django_db_blocker)


class Heard(list[tuple[str, Any, Any]]):
    """The signals of Tasks: what has happened, the sender, the result's status then."""

    def words(self) -> list[str]:
        return [what for what, _, _ in self]


@contextmanager
def listening() -> Iterator[Heard]:
    """Have what is sent about Tasks written down."""
    heard = Heard()
    receivers = []
    for what in ("enqueued", "started", "finished"):

        def receive(sender: Any, what: str = what, **more: Any) -> None:
            heard.append((what, sender, more["task_result"].status.value))

        signal = getattr(installed.signals, f"task_{what}")
        signal.connect(receive)
        receivers.append((signal, receive))
    try:
        yield heard
    finally:
        for signal, receive in receivers:
            signal.disconnect(receive)


@pytest.fixture
def heard() -> Iterator[Heard]:
    with listening() as heard:
        yield heard
