"""Fixtures of the client's suite: the client on every kind of server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import redis

from django_qless.core import Client
from tests import drawing
from tests.client.cutter import Cutter
from tests.permissions import client_of, nothing_refused

if TYPE_CHECKING:
    from tests.real_servers import Server

NOW = 1_700_000_000.0

# Behind thousands of other tests in one process it takes minutes: for the night.
collect_ignore = [] if drawing.ALL else ["test_interruptions.py"]


@pytest.fixture
def client(each_server: Server) -> Iterator[Client]:
    """A worker's client on an empty server, once per kind of server."""
    with (
        nothing_refused(each_server),
        Client(client_of(each_server, "worker")) as client,
    ):
        yield client


@pytest.fixture
def at(client: Client) -> Callable[[float], None]:
    """Sets the client's clock to a number of seconds after the beginning."""
    client.script.now = NOW

    def at(seconds: float) -> None:
        client.script.now = NOW + seconds

    return at


@pytest.fixture
def valkey(server: Server) -> Iterator[Callable[..., Client]]:
    """Makes clients of an empty Valkey, with any options."""
    made: list[Client] = []

    def make(path: str = server.socket, options: Any = (), **arguments: Any) -> Client:
        redis_client = redis.Redis(unix_socket_path=path, **dict(options))
        client = Client(redis_client, **arguments)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@pytest.fixture
def cutter(server: Server) -> Iterator[Cutter]:
    """A proxy in front of an empty Valkey."""
    with Cutter(server.socket) as cutter:
        yield cutter
