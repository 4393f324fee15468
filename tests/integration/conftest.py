"""QLESS on a real server, and a worker's doings in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless.connections import connections
from django_qless.environment import DjangoEnvironment
from django_qless.worker.execution import Execution

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.servers import Server

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


@pytest.fixture
def work(qless: Client, django_db_blocker: Any) -> Callable[..., int]:
    """Run jobs in this process until the queues are empty; return how many runs."""

    def run(*queues: str, alias: str = "default") -> int:
        client = connections[alias]
        execution = Execution(DjangoEnvironment(alias), client, WORKER)
        settlements: list[Any] = []
        runs = 0
        while True:
            settled = client.settle(WORKER, settlements, 1, queues or ("*",))
            assert not settled.refused, settled.refused
            if not settled.jobs:
                return runs
            runs += 1
            # Around each job its environment looks after the database connections.
            with django_db_blocker.unblock():
                settlements = [execution.perform(job) for job in settled.jobs]

    return run
