"""A worker of several aliases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.put import new_jid
from tests.real_servers import Server, poll
from tests.worker.processes import (
    ForkedProcess,
    children_of,
    descendants,
    django,
    is_alive,
    whole_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worker.ledger import Gate, Ledger


ROOT = Path(__file__).parents[2]


SETTINGS = """
from tests.worker.settings import *
QLESS = {{
    "default": {{"LOCATION": {url!r}}},
    "mail": {{"LOCATION": {url!r}, "PREFIX": "mail:"}},
    "away": {{"LOCATION": {away!r}}},
}}
"""


TWO = ("--alias", "default", "--alias", "mail")


class Group:
    """A project with three aliases, one of whose servers does not run, and its worker."""

    def __init__(
        self, folder: Path, server: Server, away: Server, ledger: Ledger, gate: Gate
    ) -> None:
        settings = SETTINGS.format(url=server.url, away=away.url)
        (folder / "group_settings.py").write_text(settings)
        self.away = away
        self.folder = folder
        self.clients = {
            "default": Client(server.client()),
            "mail": Client(server.client(), "mail:"),
            "away": Client(away.client()),
        }
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "group_settings",
            "PYTHONPATH": f"{folder}:{ROOT}",
            "LEDGER": ledger.path,
            "GATE": gate.path,
        }
        self.log = folder / "log"
        self._stack = ExitStack()
        for client in self.clients.values():
            self._stack.callback(client.close)

    def start(self, *arguments: str, **environment: str) -> ForkedProcess:
        """Start the command."""
        process = django(
            ("qless_worker", *arguments), self.log, {**self.environment, **environment}
        )
        self._stack.callback(end, process)
        return process

    def started(self, *arguments: str, **environment: str) -> ForkedProcess:
        """Start it; return when the two aliases with a server are served."""
        process = self.start(*arguments, "--name", "w", **environment)
        self.serves("default")
        self.serves("mail")
        return process

    def serves(self, alias: str) -> None:
        """Return when a job of this alias has run."""
        jid = self.put(alias, "greet", "x")
        poll(
            lambda: self.state(alias, jid) == "complete", what=f"{alias}: {self.output}"
        )

    def run(self, *arguments: str) -> int:
        """Run it to its end; return the exit code."""
        return self.start(*arguments).wait(60)

    def wait_for_log(self, text: str, times: int = 1) -> None:
        poll(lambda: self.output.count(text) >= times, what=f"{text!r}: {self.output}")

    @property
    def output(self) -> str:
        return whole_lines(self.log)

    def put(self, alias: str, name: str, *args: Any, queue: str = "q") -> str:
        """Put a job of the shop under this alias; return its jid."""
        data = json.dumps({"v": 1, "args": args, "kwargs": {}})
        klass, jid = f"tests.worker.shop.jobs.{name}", new_jid()
        self.clients[alias].put("", queue, jid, klass, data)
        return jid

    def state(self, alias: str, jid: str) -> str:
        job = self.clients[alias].get(jid)
        assert job is not None
        return job.state

    def close(self) -> None:
        self._stack.close()


def end(process: ForkedProcess) -> None:
    """End a command for certain, with all its processes."""
    family = [process.pid, *descendants(process.pid)]
    for pid in family:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    poll(lambda: not any(map(is_alive, family)), what=f"{family} have ended")


@pytest.fixture
def group(
    tmp_path: Path, server: Server, ledger: Ledger, gate: Gate
) -> Iterator[Group]:
    away = Server()
    group = Group(tmp_path, server, away, ledger, gate)
    yield group
    group.close()
    away.close()


def test_each_alias_is_served(group: Group, ledger: Ledger) -> None:
    jids = {alias: group.put(alias, "greet", alias) for alias in ("default", "mail")}
    assert group.run(*TWO, "--burst") == 0, group.output
    for alias, jid in jids.items():
        assert group.state(alias, jid) == "complete"
    assert sorted(ledger.all()) == ["greet default", "greet mail"]


def test_queues_are_those_of_each_alias(group: Group) -> None:
    wanted = group.put("mail", "greet", "x", queue="letters-1")
    other = group.put("mail", "greet", "x", queue="parcels")
    assert group.run(*TWO, "letters-*", "--burst") == 0, group.output
    assert group.state("mail", wanted) == "complete"
    assert group.state("mail", other) == "waiting"


def route(group: Group) -> None:
    """Route the queue `letters` of the project to the alias `mail`."""
    with (group.folder / "group_settings.py").open("a") as settings:
        settings.write('QLESS_ROUTES = {"letters*": "mail"}\n')


def test_routed_queue_is_served_in_its_alias(group: Group) -> None:
    route(group)
    wanted = group.put("mail", "greet", "x", queue="letters")
    left = group.put("default", "greet", "x", queue="letters")
    assert group.run("letters", "--burst", "--name", "w") == 0, group.output
    assert group.state("mail", wanted) == "complete"
    assert group.state("default", left) == "waiting"


def test_queues_of_two_aliases_are_served_in_theirs(group: Group) -> None:
    route(group)
    jids = {
        alias: group.put(alias, "greet", "x", queue=queue)
        for alias, queue in (("default", "q"), ("mail", "letters-1"))
    }
    assert group.run("letters-*", "q", "--burst", "--name", "w") == 0, group.output
    for alias, jid in jids.items():
        assert group.state(alias, jid) == "complete"


def test_worker_of_all_queues_logs_the_routed_ones_that_it_leaves_out(
    group: Group,
) -> None:
    route(group)
    assert group.run("--burst", "--name", "w") == 0, group.output
    assert 'queues="letters* (mail)"' in group.output
    assert group.run("--all-aliases", "--burst", "--name", "v", "-x", "none") != 0
    assert "letters* (mail)" not in group.output


def test_all_aliases(group: Group) -> None:
    group.away.start()
    jids = {alias: group.put(alias, "greet", alias) for alias in group.clients}
    assert group.run("--all-aliases", "--burst") == 0, group.output
    for alias, jid in jids.items():
        assert group.state(alias, jid) == "complete"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--alias", "mail", "--all-aliases"), 2, "not allowed with argument"),
        (("--alias", "mail", "--alias", "nowhere"), os.EX_CONFIG, "'nowhere'"),
    ],
)
def test_bad_options_are_named(
    group: Group, arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert group.run(*arguments) == code
    assert words in group.output
    assert "Traceback" not in group.output


def test_a_server_that_is_away_stops_no_other(group: Group, tmp_path: Path) -> None:
    health = tmp_path / "health"
    process = group.started("--all-aliases", "--health-file", str(health))
    group.wait_for_log("waiting for the server")
    group.serves("mail")
    probe = [sys.executable, "-m", "django_qless.health", str(health)]
    assert subprocess.run(probe, check=False).returncode == 0
    assert subprocess.run([*probe, "--ready"], check=False).returncode == 1
    group.away.start()
    group.serves("away")
    # Nor does one that goes away later.
    group.away.kill()
    group.serves("default")
    group.away.start()
    group.serves("away")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, group.output


def test_it_ends_while_it_waits_for_a_server(group: Group) -> None:
    process = group.start("--alias", "away", "--alias", "mail", "--name", "w")
    group.wait_for_log("waiting for the server")
    group.wait_for_log(" started ")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, group.output


def test_a_burst_does_not_wait_for_a_server(group: Group) -> None:
    jid = group.put("default", "greet", "x")
    assert group.run("--all-aliases", "--burst") == os.EX_UNAVAILABLE, group.output
    assert group.state("default", jid) == "complete"
    assert "Traceback" not in group.output


def test_a_signal_to_all_processes_counts_once(
    group: Group, ledger: Ledger, gate: Gate
) -> None:
    """As systemd sends it."""
    process = group.started(*TWO)
    jid = group.put("mail", "stay", "x", queue="slow")
    poll(lambda: ledger.starting_with("running"), what="it runs")
    for pid in [*children_of(process.pid), process.pid]:
        os.kill(pid, signal.SIGTERM)
    group.wait_for_log("SIGTERM")
    gate.open()
    assert process.wait(30) == 0, group.output
    assert group.state("mail", jid) == "complete"
    assert "over x" in ledger.all()


def test_quiet_and_resume_are_passed_on(group: Group) -> None:
    process = group.started(*TWO)
    process.send_signal(signal.SIGTSTP)
    group.wait_for_log("order=quiet")
    process.send_signal(signal.SIGCONT)
    group.serves("mail")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, group.output
