"""Fixtures that all suites share: real servers, both engines, clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import postgres
from tests import servers as machinery

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.servers import Server


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Server]]:
    """One server of each kind that this machine has, by kind.

    Each process of pytest-xdist has its own: a test may flush them.
    """
    running: dict[str, Server] = {}
    try:
        for kind in machinery.available_kinds():
            running[kind] = machinery.Server(kind).start()
        yield running
    finally:
        for server in running.values():
            server.close()


@pytest.fixture
def server(servers: dict[str, Server]) -> Server:
    """An empty Valkey."""
    servers["valkey"].flush()
    return servers["valkey"]


@pytest.fixture(params=machinery.available_kinds())
def each_server(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    """An empty server of each kind that this machine has, one after the other."""
    servers[request.param].flush()
    return servers[request.param]


@pytest.fixture(params=["function", "script"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each of the two ways in which a server runs the Lua core."""
    engine: str = request.param
    return engine


@pytest.fixture
def redis_client(server: Server) -> Iterator[redis.Redis]:
    """A client of `server` that returns bytes."""
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def each_redis_client(each_server: Server) -> Iterator[redis.Redis]:
    """A client of `each_server` that returns bytes."""
    client = each_server.client()
    yield client
    client.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested because this machine lacks it."""
    for words in [*machinery.missing(), *postgres.missing()]:
        terminalreporter.write_line(f"Left out: {words}", yellow=True)
