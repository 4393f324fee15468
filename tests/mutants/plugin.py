"""Serves pytest in a copy of the tree: says which test runs, and what each reaches.

The file that QLESS_MUTANTS names says what to do, as JSON:

    progress  file to which a line is added when a test begins and when one fails
    order     the tests to run, in this order
    files     files of which those tests run first that are neither in it nor `known`
    reached   folder for a file that holds seconds, outcome and numbers reached of each test,
              and the numbers reached while tests were collected
    language  whose numbers these are
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import real_servers
from tests.mutants.languages import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mutants.mutant import Language

TASK = "QLESS_MUTANTS"


def pytest_configure(config: pytest.Config) -> None:
    """Register what the task wants."""
    task = json.loads(Path(os.environ[TASK]).read_text())
    if "order" in task:
        config.pluginmanager.register(Order(task, LANGUAGES[task["language"]]))
        config.pluginmanager.register(Progress(Path(task["progress"])))
    else:
        folder = Path(task["reached"])
        config.pluginmanager.register(Reached(folder, task["language"]))


class Order:
    """Runs the tests that are wanted, in the order that is wanted."""

    def __init__(self, task: dict[str, Any], language: Language) -> None:
        self.ranks = {nodeid: rank for rank, nodeid in enumerate(task["order"])}
        self.files, self.known = set(task["files"]), set(task["known"])
        self.language = language

    def rank(self, nodeid: str) -> int | None:
        """Return a test's rank, or None if it is not wanted."""
        if nodeid in self.ranks:
            return self.ranks[nodeid]
        if nodeid.partition("::")[0] not in self.files or nodeid in self.known:
            return None
        return -1 if self.language.wanted(nodeid) else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out and sort."""
        ranked = [(self.rank(item.nodeid), item) for item in items]
        config.hook.pytest_deselected(
            items=[item for rank, item in ranked if rank is None]
        )
        wanted = [(rank, item) for rank, item in ranked if rank is not None]
        items[:] = [item for _, item in sorted(wanted, key=lambda pair: pair[0])]


class Progress:
    """Adds a line to a file when a test begins and when one fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def say(self, word: str, nodeid: str) -> None:
        """Add a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([word, nodeid]) + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say that a test begins."""
        self.say("begins", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say that a test has failed."""
        if report.failed:
            self.say("failed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say that a file cannot be imported."""
        if report.failed:
            self.say("failed", report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Say that there are no more tests."""
        self.say("ends", "")


class Reached:
    """Keeps for each test what it has reached on the servers."""

    def __init__(self, folder: Path, language: str) -> None:
        self.folder = folder
        self.language = LANGUAGES[language]
        self.servers: list[real_servers.Server] = []
        self.reached: set[int] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self.imported: set[int] = set()
        self.language.begin()
        self.follow_servers()

    def follow_servers(self) -> None:
        """Have each server known from its start on, and asked before its end."""
        start, stop = real_servers.Server.start, real_servers.Server.stop

        def known_start(server: real_servers.Server) -> real_servers.Server:
            self.servers.append(server)
            return start(server)

        def asked_stop(server: real_servers.Server, with_signal: str = "TERM") -> None:
            if server in self.servers:
                self.ask(server)
                self.servers.remove(server)
            stop(server, with_signal)

        real_servers.Server.start = known_start  # type: ignore[method-assign]
        real_servers.Server.stop = asked_stop  # type: ignore[method-assign]

    def ask(self, server: real_servers.Server) -> None:
        """Ask a server what was reached since."""
        if server.running:
            with contextlib.closing(server.client(socket_timeout=2)) as client:
                self.reached.update(self.language.reached(client))

    def take(self) -> set[int]:
        """Return what was reached on all servers and in processes."""
        self.reached.update(self.language.executed())
        for server in self.servers:
            self.ask(server)
        reached, self.reached = self.reached, set()
        return reached

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what is not worth its time; keep what the imports have reached."""
        self.imported = self.take()
        items[:] = [item for item in items if self.language.wanted(item.nodeid)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Keep what is reached during a test."""
        self.take()
        result = yield
        self.tests.setdefault(item.nodeid, {})["reached"] = sorted(self.take())
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Keep how long a test takes, and whether it passes."""
        report = yield
        test = self.tests.setdefault(item.nodeid, {})
        test["seconds"] = test.get("seconds", 0) + report.duration
        test["passed"] = test.get("passed", True) and not report.failed
        return report

    def pytest_sessionfinish(self) -> None:
        """Write all of it, a file for each process."""
        name = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        if self.tests:
            found = {"tests": self.tests, "imported": sorted(self.imported)}
            (self.folder / f"{name}.json").write_text(json.dumps(found))
