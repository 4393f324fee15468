"""Two aliases served by one command, each with a server."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client, Put
from django_qless.core.put import new_jid
from tests.real_servers import Server, poll
from tests.worker.processes import ROOT, ForkedProcess, descendants, django, is_alive
from tests.worker.runs import Latch, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = """
from tests.worker.small_settings import *
QLESS = {{"default": {{"LOCATION": {default!r}}}, "two": {{"LOCATION": {two!r}}}}}

import os, socket, time
look_up = socket.getaddrinfo
def getaddrinfo(host, *args, **options):
    while os.path.exists({hanging!r}):
        time.sleep(0.1)
    return look_up("127.0.0.1" if host == "server.invalid" else host, *args, **options)
socket.getaddrinfo = getaddrinfo

# Entities of the smallest project are pushed into the queues that its tests choose.
SILENCED_SYSTEM_CHECKS = ["django_qless.E056"]
"""

ALIASES = ("default", "two")


class Pair:
    """A project with two aliases on two servers, and a worker of both."""

    def __init__(self, folder: Path, servers: dict[str, Server]) -> None:
        self.servers = servers
        self.clients = {name: Client(each.client()) for name, each in servers.items()}
        self.runs = Runs(folder / "runs")
        self.latch = Latch(folder / "latch")
        self.folder = folder
        #: While this file exists, names are looked up in vain.
        self.hanging = folder / "hanging"
        urls = {
            "default": f"redis://server.invalid:{servers['default'].port}",
            "two": servers["two"].url,
        }
        text = SETTINGS.format(**urls, hanging=str(self.hanging))
        (folder / "pair_settings.py").write_text(text)

    def start(self, *arguments: str) -> ForkedProcess:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "pair_settings",
            "PYTHONPATH": f"{self.folder}:{ROOT}",
        }
        aliases = ("--alias", "default", "--alias", "two")
        command = ("qless_worker", *aliases, *arguments)
        return django(command, self.folder / "log", environment)

    def put(self, alias: str, klass: str, name: str, *args: Any) -> str:
        """Put a recorded job."""
        jid = new_jid()
        data = json.dumps({"v": 1, "args": [self.runs.path, name, *args]})
        self.clients[alias].put("", "q", jid, klass, data)
        return jid

    def run_of(self, name: str) -> int:
        """Return the process of the first run of a job, when it has begun."""
        return poll(lambda: self.runs.of(name), what=f"{name} runs: {self.log}")[0].pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(Server("valkey", tcp=name == "default"))
            for name in ALIASES
        }
        pair = Pair(tmp_path, servers)
        stack.callback(pair.runs.close)
        for client in pair.clients.values():
            stack.callback(client.close)
        yield pair


@pytest.fixture
def worker(pair: Pair, request: pytest.FixtureRequest) -> Iterator[ForkedProcess]:
    """A worker of both, with the concurrency that is the fixture's parameter."""
    process = pair.start("--concurrency", str(request.param))
    yield process
    family = [process.pid, *descendants(process.pid)]
    process.kill()
    poll(lambda: not any(map(is_alive, family)), what=f"{family} have ended")


@contextmanager
def hung(pair: Pair, what: str) -> Iterator[None]:
    """Let the server of the default alias hang, or the look-up of its name."""
    server = pair.servers["default"]
    if what == "server":
        os.kill(server.pid, signal.SIGSTOP)
        yield
        os.kill(server.pid, signal.SIGCONT)
    else:
        pair.hanging.touch()
        pair.clients["default"].redis.client_kill_filter(_type="normal", skipme=True)
        yield
        pair.hanging.unlink()


@pytest.mark.parametrize("what", ["server", "name"])
@pytest.mark.parametrize("worker", [4], indirect=True)
def test_a_server_that_hangs_holds_up_nothing_of_the_other(
    pair: Pair, worker: ForkedProcess, what: str
) -> None:
    """Its jobs run, and their locks are renewed, for as long as it hangs."""
    lives = pair.clients["two"]
    for client in pair.clients.values():
        client.config_set("heartbeat", 1)
        client.config_set("grace-period", 0)
    held = {each: pair.put(each, "hold", each, pair.latch.path) for each in ALIASES}
    for each in ALIASES:
        pair.run_of(each)
    with hung(pair, what):
        seen = lives.get(held["two"]).expires
        for n in range(5):
            jid = pair.put("two", "record", f"meanwhile-{n}")
            poll(lambda jid=jid: lives.get(jid).state == "complete", what="it has run")
        poll(
            lambda: lives.get(held["two"]).expires > seen + 3,
            what=f"its lock is renewed again and again: {pair.log}",
        )
    pair.latch.open()
    for alias, client in pair.clients.items():
        poll(
            lambda alias=alias, client=client: (
                client.get(held[alias]).state == "complete"
            ),
            what=f"the job of {alias} is complete: {pair.log}",
        )
    history = lives.get(held["two"]).history
    assert [each["what"] for each in history] == ["put", "popped", "done"]


JOBS, COUNTED = 150, 100


@pytest.mark.parametrize("worker", [1], indirect=True)
def test_with_work_in_both_each_gets_about_half(
    pair: Pair, worker: ForkedProcess
) -> None:
    for alias, client in pair.clients.items():
        data = json.dumps({"v": 1, "args": [pair.runs.path, alias, 0.01]})
        client.put_many("", [Put(new_jid(), "q", "record", data) for _ in range(JOBS)])

    def counted() -> list[str]:
        """Return whose the runs were since both had one."""
        names = [run.name for run in pair.runs.all()]
        if {*names} != {*ALIASES}:
            return []
        return names[max(map(names.index, ALIASES)) :]

    poll(lambda: len(counted()) >= COUNTED, what=f"{COUNTED} have run: {pair.log}")
    share = Counter(counted()[:COUNTED])["two"] / COUNTED
    assert 0.4 <= share <= 0.6
