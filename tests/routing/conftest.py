"""Three namespaces of one alias: two on one server, the third on another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import override_settings

from django_qless.conf.connections import connections
from django_qless.core import Client
from django_qless.monitoring import health, lag, snapshot
from tests.real_servers import Server
from tests.tasks import installed

NAMES = DEFAULT, MAIL, REPORTS = "default", "default/mail", "default/report.*"


def namespaces(here: str, there: str) -> dict[str, Any]:
    """Return the setting of one alias with these two servers."""
    return {
        "LOCATION": here,
        "PATIENCE": 0.2,
        "NAMESPACES": {
            "": "ql:",
            "mail": "ql-mail:",
            "report.*": {"PREFIX": "ql-r:", "LOCATION": there},
        },
    }


@dataclass
class Places:
    """The clients of the namespaces by name, and the servers."""

    here: Server
    there: Server

    def __getitem__(self, name: str) -> Client:
        return connections[name]

    def waiting(self, queue: str) -> list[int]:
        """Return how many jobs of a queue wait in each namespace."""
        return [self[name].queue_counts(queue).waiting for name in NAMES]


PARTITIONS = [f"default/events:{index}" for index in range(4)]


@pytest.fixture
def split(server: Server) -> Iterator[list[str]]:
    """The default alias with a queue of four partitions, the last on another server."""
    with Server("valkey") as there:
        setting = {
            "LOCATION": server.url,
            "PATIENCE": 0.2,
            "QUEUES": {"events": {"partitions": 4}},
            "NAMESPACES": {"": "ql:", "events:3": {"LOCATION": there.url}},
        }
        with override_settings(QLESS={"default": setting}, TASKS=installed.TASKS):
            for shared in (snapshot.snapshots, snapshot.statuses, lag.lags):
                shared.forget()
            health.workers.forget()
            yield PARTITIONS
            connections.forget()


@pytest.fixture
def places(server: Server) -> Iterator[Places]:
    """The default alias with three namespaces, on two empty servers."""
    with Server("valkey") as there:
        aliases = {"default": namespaces(server.url, there.url)}
        with override_settings(QLESS=aliases, TASKS=installed.TASKS):
            for shared in (snapshot.snapshots, snapshot.statuses, lag.lags):
                shared.forget()
            health.workers.forget()
            yield Places(server, there)
            connections.forget()
