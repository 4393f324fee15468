"""A worker of several aliases: a process for each, and one above that passes on."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.put import new_jid
from django_qless.worker.aliases import GroupMember, current_member
from django_qless.worker.options import WorkerOptions
from django_qless.worker.shutdown import Shutdown
from tests.real_servers import Server, poll
from tests.worker.processes import (
    ForkedProcess,
    children_of,
    descendants,
    django,
    is_alive,
    whole_lines,
)
from tests.worker.test_status_report import Manager

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worker.ledger import Gate, Ledger


ROOT = Path(__file__).parents[3]


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
        for alias in ("default", "mail"):
            self.wait_for_log(f"started worker=w-{alias} ")
        return process

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

    def workers(self, alias: str) -> list[str]:
        return [known.name for known in self.clients[alias].workers()]

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


def test_each_alias_has_the_concurrency_for_itself(
    group: Group, ledger: Ledger, gate: Gate
) -> None:
    process = group.started(*TWO, "--concurrency", "1")
    for alias in ("default", "mail"):
        group.put(alias, "stay", alias)
    ledger.wait_until(2)
    gate.open()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output


def test_names_files_and_a_good_end(
    group: Group, ledger: Ledger, gate: Gate, tmp_path: Path
) -> None:
    health = tmp_path / "health"
    process = group.started(*TWO, "--health-file", str(health))
    # In the admin each alias has its worker, which says whose it is.
    for alias in ("default", "mail"):
        poll(lambda at=alias: group.workers(at) == [f"w-{at}"], what="it is there")

    def told(path: Path) -> dict[str, Any]:
        known: dict[str, Any] = json.loads(path.read_text())
        return known

    poll(lambda: told(health)["state"] == "running", what="all work")
    assert (told(health)["name"], told(health)["pid"]) == ("w", process.pid)
    jids = {
        alias: group.put(alias, "stay", alias, queue="slow")
        for alias in ("default", "mail")
    }
    ledger.wait_until(2)
    poll(lambda: told(health)["running"] == 2, what="two jobs run")
    assert told(tmp_path / "health.mail")["running"] == 1

    process.send_signal(signal.SIGTERM)
    poll(lambda: told(health)["state"] == "draining", what="all drain")
    gate.open()
    assert process.wait(30) == 0, group.output
    assert [group.state(alias, jid) for alias, jid in jids.items()] == ["complete"] * 2
    assert group.workers("default") == group.workers("mail") == []
    assert not health.exists()
    assert not list(tmp_path.glob("health.*"))


def test_when_one_fails_the_others_end_in_good_order(
    group: Group, ledger: Ledger, gate: Gate
) -> None:
    process = group.started(*TWO)
    jid = group.put("mail", "stay", "x", queue="slow")
    ledger.wait_until(1)
    (killed,) = [
        worker
        for worker in children_of(process.pid)
        if worker not in holders(group, "mail")
    ]
    os.kill(killed, signal.SIGKILL)
    group.wait_for_log("worker ended worker=w name=w-default status=-9")
    gate.open()
    assert process.wait(30) == os.EX_SOFTWARE, group.output
    assert group.state("mail", jid) == "complete"


def test_workers_end_when_the_parent_is_killed(
    group: Group, ledger: Ledger, gate: Gate
) -> None:
    process = group.started(*TWO)
    jid = group.put("mail", "stay", "x", queue="slow")
    ledger.wait_until(1)
    family = descendants(process.pid)
    process.kill()
    gate.open()
    poll(lambda: not any(map(is_alive, family)), what="all have ended", seconds=30)
    assert group.state("mail", jid) == "complete"


def test_hup_executes_each_worker_anew(group: Group) -> None:
    process = group.started(*TWO)
    before = children_of(process.pid)
    process.send_signal(signal.SIGHUP)
    for alias in ("default", "mail"):
        group.wait_for_log(f"started worker=w-{alias} ", times=2)
    assert children_of(process.pid) == before
    jid = group.put("mail", "greet", "x")
    poll(lambda: group.state("mail", jid) == "complete", what="they work")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, group.output


def test_systemd_hears_the_parent(group: Group, tmp_path: Path) -> None:
    address = f"@{tmp_path.name}-{os.getpid()}"
    manager = Manager(address)
    heard: list[str] = []

    def hears(line: str) -> bool:
        heard.extend(line for message in manager.received() for line in message)
        return line in heard

    process = group.started(*TWO, NOTIFY_SOCKET=address)
    poll(lambda: hears("READY=1"), what="it is ready")
    assert heard.count("READY=1") == 1
    assert "STATUS=aliases: default,mail" in heard
    process.send_signal(signal.SIGTERM)
    poll(lambda: hears("STOPPING=1"), what="it ends")
    assert process.wait(30) == 0
    manager.close()


def test_a_second_stop_within_the_echo_is_the_first_one() -> None:
    shutdown = Shutdown(30.0, echo=3600.0)
    shutdown.request_stop()
    shutdown.request_stop()
    assert shutdown.state == "draining"
    shutdown = Shutdown(30.0)
    shutdown.request_stop()
    shutdown.request_stop()
    assert shutdown.state == "stopping"


def test_a_member_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_QLESS_WORKER", "")
    assert current_member() is None
    member = GroupMember("a b/c", 7)
    member.record()
    assert current_member() == member
    monkeypatch.setenv("DJANGO_QLESS_WORKER", "1 7 a")
    assert current_member() is None
    options = WorkerOptions(name="w", health_file="h")
    there = member.options(options, {"a b/c": ("mail",)})
    assert there.queues == ("mail",)
    assert (there.name, there.health_file) == ("w-a b/c", "h.a%20b%2Fc")


def holders(group: Group, alias: str) -> list[int]:
    """Return the processes of the workers of an alias, as they say it themselves."""
    known = group.clients[alias].workers()
    return [int((worker.info or {})["pid"]) for worker in known]
