"""Fixtures that all suites share: real servers, clients."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from django.utils import translation

from tests import postgres
from tests import real_servers as machinery
from tests.in_process import each_way as each_way
from tests.in_process import each_work as each_work
from tests.in_process import loop_work as loop_work
from tests.in_process import qless as qless
from tests.in_process import work as work

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.real_servers import Server


# Left out, and listed as such, where there is no server.
collect_ignore = (
    []
    if postgres.is_available()
    else [
        "runtime/test_postgres.py",
        "serialization/test_model_references_postgres.py",
    ]
)


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


@pytest.fixture
def redis_client(server: Server) -> Iterator[redis.Redis]:
    """A client of `server` that returns bytes."""
    client = server.client()
    yield client
    client.close()


@pytest.fixture(autouse=True)
def no_language_left() -> Iterator[None]:
    """Undo what LocaleMiddleware leaves of a request: jobs of other tests would carry it."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def no_outbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its app were not installed, but for its own tests: most use no database."""
    if "outbox" not in request.path.relative_to(request.config.rootpath).parts:
        from django_qless.outbox import tables

        monkeypatch.setattr(tables, "is_installed", lambda: False)


class Crier:
    """Names what failed when it fails: the end is many minutes away."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            words = f"FAILED: {report.nodeid} ({report.when})"
            self.terminal.ensure_newline()
            self.terminal.write_line(words, red=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C be heard even if a script runs the tests in the background.

    What a shell without job control starts with "&" ignores SIGINT, and so would every
    worker that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The processes of pytest-xdist have no terminal; the one that starts them has.
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(Crier(terminal))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested because this machine lacks it."""
    for words in [*machinery.missing(), *postgres.missing()]:
        terminalreporter.write_line(f"Left out: {words}", yellow=True)


#: What takes longest, and waits for most of it. Begun first: at the end it would run alone.
LONG = (
    "acceptance/test_demo.py",
    "client/test_partition.py",
    "docs/test_tutorial.py",
    "outbox/test_shown.py",
    "worker/test_cluster.py",
    "worker/test_sentinel.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests in front; the others keep their order."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))
