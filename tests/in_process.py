"""Fixtures with QLESS on a real server, and its jobs run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.worker import ticker
from django_qless.worker.execution import Execution

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved, Settlement
    from tests.real_servers import Server

WORKER = "test-worker"


@pytest.fixture
def qless(server: Server) -> Iterator[Client]:
    """The client of the default alias; `other` is a second one on the same server."""
    aliases = {
        "default": {"LOCATION": server.url},
        "other": {"LOCATION": server.url, "PREFIX": "other:"},
    }
    with override_settings(QLESS=aliases):
        yield connections["default"]


def in_main_thread(execution: Execution, job: Reserved) -> Settlement:
    """Run a job as the pools prefork and fork do."""
    return execution.perform(job)


def in_thread(execution: Execution, job: Reserved) -> Settlement:
    """Run a job as the pool of threads does."""
    outcomes: list[Settlement] = []

    def run() -> None:
        outcomes.append(execution.perform(job))
        execution.environment.leave_thread()

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return outcomes[0]


def in_loop(execution: Execution, job: Reserved) -> Settlement:
    """Run a job as the pool of coroutines does."""

    async def run() -> Settlement:
        outcome = await execution.aperform(job)
        await connections.aclose()
        return outcome

    return asyncio.run(run())


WAYS = {"main": in_main_thread, "thread": in_thread, "loop": in_loop}


def worker(
    way: Callable[[Execution, Reserved], Settlement], django_db_blocker: Any
) -> Callable[..., int]:
    """Return what runs jobs in this way until the queues are empty."""

    def run(*queues: str, alias: str = "default") -> int:
        client = connections[alias]
        execution = Execution(DjangoEnvironment(alias), client, WORKER)
        settlements: list[Any] = []
        runs = 0
        while ticker.serve(client, WORKER) == 0:
            pass
        while True:
            settled = client.settle(WORKER, settlements, 1, queues or ("*",))
            assert not settled.refused, settled.refused
            if not settled.jobs:
                return runs
            runs += 1
            # Around each job its environment looks after the database connections.
            with django_db_blocker.unblock():
                settlements = [way(execution, job) for job in settled.jobs]

    return run


@pytest.fixture
def work(qless: Client, django_db_blocker: Any) -> Callable[..., int]:
    """Run jobs in this process until the queues are empty; return how many runs."""
    return worker(in_main_thread, django_db_blocker)


@pytest.fixture(params=WAYS)
def each_work(
    qless: Client, django_db_blocker: Any, request: pytest.FixtureRequest
) -> Callable[..., int]:
    """Do the same in each of the ways in which pools run jobs."""
    return worker(WAYS[request.param], django_db_blocker)


@pytest.fixture(params=WAYS)
def each_way(
    request: pytest.FixtureRequest, django_db_blocker: Any
) -> Callable[[Execution, Reserved], Settlement]:
    """Runs one job in each of the ways in which pools run jobs."""

    def run(execution: Execution, job: Reserved) -> Settlement:
        with django_db_blocker.unblock():
            return WAYS[request.param](execution, job)

    return run


@pytest.fixture
def loop_work(qless: Client, django_db_blocker: Any) -> Callable[..., int]:
    """Do the same in an event loop."""
    return worker(in_loop, django_db_blocker)
