"""A worker of the namespaces of an alias: a process for each, on one or several servers."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from django_qless.core import Client
from django_qless.core.cluster import cluster_client
from tests.clusters import Cluster
from tests.real_servers import Server, poll
from tests.worker.test_aliases import Group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worker.ledger import Gate, Ledger

SETTINGS = """
from tests.worker.settings import *
QLESS = {{"default": {options!r}}}
"""

DEFAULT, MAIL, REPORTS = "default", "default/mail", "default/report.*"


class Namespaces(Group):
    """A project whose alias has three namespaces, one on another server."""

    def use(self, clients: dict[str, Client], **options: Any) -> None:
        """Let these be the clients of the namespaces, and these the options."""
        (self.folder / "group_settings.py").write_text(SETTINGS.format(options=options))
        for client in clients.values():
            self._stack.callback(client.close)
        self.clients = clients

    def send(self, target: str, queue: str) -> str:
        """Put a job into a queue of the first namespace, and move it; return its jid."""
        jid = self.put(DEFAULT, "greet", "x", queue="q")
        moved = self.clients[DEFAULT].send_each(target, [jid], queue)
        assert moved.done == [jid], moved
        return jid

    def arrive(self, jid: str, name: str) -> None:
        """Return when a job that was moved is complete where it has gone."""
        poll(lambda: self.clients[name].get(jid), what=f"{jid}: {self.output}")
        self.complete(name, jid)

    def complete(self, name: str, jid: str) -> None:
        """Return when a job is complete."""
        poll(
            lambda: self.state(name, jid) == "complete",
            what=f"{jid} of {name}: {self.output}",
            seconds=60,
        )


@pytest.fixture
def group(
    tmp_path: Path, server: Server, ledger: Ledger, gate: Gate
) -> Iterator[Namespaces]:
    with Server() as there:
        group = Namespaces(tmp_path, server, there, ledger, gate)
        clients = {
            DEFAULT: Client(server.client()),
            MAIL: Client(server.client(), "mail:"),
            REPORTS: Client(there.client(), "ql-r:"),
        }
        namespaces = {
            "": "ql:",
            "mail": "mail:",
            "report.*": {"PREFIX": "ql-r:", "LOCATION": there.url},
        }
        group.use(clients, LOCATION=server.url, NAMESPACES=namespaces)
        yield group
        group.close()


def test_one_command_serves_all_namespaces(group: Namespaces) -> None:
    given = {DEFAULT: "q", MAIL: "mail", REPORTS: "report.x"}
    jids = {name: group.put(name, "greet", "x", queue=q) for name, q in given.items()}
    assert group.run("--burst") == 0, group.output
    for name, jid in jids.items():
        assert group.state(name, jid) == "complete"


def test_only_namespaces_that_may_have_the_queues_are_served(
    group: Namespaces,
) -> None:
    mail = group.put(MAIL, "greet", "x", queue="mail")
    left = group.put(DEFAULT, "greet", "x", queue="mail")
    assert group.run("mail", "--burst", "--name", "w") == 0, group.output
    assert group.state(MAIL, mail) == "complete"
    assert group.state(DEFAULT, left) == "waiting"
    # It is one worker, without a group.
    assert "started worker=w queues=mail" in group.output
    # What was left there before the queue was routed elsewhere.
    only = ("--alias", "default/", "mail")
    assert group.run(*only, "--burst", "--name", "w") == 0, group.output
    assert group.state(DEFAULT, left) == "complete"


def test_idle_workers_are_woken_and_the_loss_of_a_server_stops_its_queues_only(
    group: Namespaces,
) -> None:
    process = group.start("--name", "w")
    for name in (DEFAULT, MAIL, REPORTS):
        group.wait_for_log(f"started worker=w-{name} ")
    for name, queue in ((MAIL, "mail"), (REPORTS, "report.x"), (DEFAULT, "q")):
        group.complete(name, group.put(name, "greet", "x", queue=queue))
    group.away.kill()
    group.complete(MAIL, group.put(MAIL, "greet", "x", queue="mail"))
    group.complete(DEFAULT, group.put(DEFAULT, "greet", "x"))
    group.away.start()
    group.complete(REPORTS, group.put(REPORTS, "greet", "x", queue="report.x"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output


def test_a_worker_of_the_source_takes_jobs_elsewhere_as_soon_as_they_are_moved(
    group: Namespaces,
) -> None:
    process = group.start("--name", "w")
    for name in (DEFAULT, REPORTS):
        group.wait_for_log(f"started worker=w-{name} ")
    group.wait_for_log("sweeping outboxes", times=3)
    group.clients[DEFAULT].pause("q")
    for _ in range(3):
        group.arrive(group.send(REPORTS, "report.x"), REPORTS)
    # While the target is away they wait, and go on by themselves when it is back.
    group.away.kill()
    jid = group.send(REPORTS, "report.x")
    group.wait_for_log("the outbox waits: namespace=default")
    group.away.start()
    group.arrive(jid, REPORTS)
    assert group.clients[DEFAULT].crossing_waiting() == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output


def test_pause_and_cancel_work_in_each_namespace(
    group: Namespaces, ledger: Ledger
) -> None:
    process = group.start("--name", "w", "mail", "report.x")
    for name in (MAIL, REPORTS):
        group.wait_for_log(f"started worker=w-{name} ")
    assert f"worker=w-{DEFAULT} " not in group.output
    group.clients[MAIL].pause("mail")
    paused = group.put(MAIL, "greet", "x", queue="mail")
    running = group.put(REPORTS, "stay", "x", queue="report.x")
    ledger.wait_until(1)
    group.clients[REPORTS].cancel(running)
    poll(lambda: "cancel" in group.output, what=f"it is told: {group.output}")
    group.complete(REPORTS, group.put(REPORTS, "greet", "y", queue="report.x"))
    assert group.state(MAIL, paused) == "waiting"
    group.clients[MAIL].unpause("mail")
    group.complete(MAIL, paused)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output


def test_it_starts_again_in_place_with_the_same_queues(group: Namespaces) -> None:
    process = group.start("--name", "w", "mail", "report.x")
    for name in (MAIL, REPORTS):
        group.wait_for_log(f"started worker=w-{name} ")
    process.send_signal(signal.SIGHUP)
    for name in (MAIL, REPORTS):
        group.wait_for_log(f"started worker=w-{name} ", times=2)
    assert group.output.count("queues=mail\n") == 2, group.output
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output


def test_replicas_that_were_never_there_stop_it_at_its_start(
    group: Namespaces, server: Server
) -> None:
    """All its jobs would be enqueued with an error; the others end in good order."""
    namespaces = {"": "ql:", "mail": "mail:"}
    group.use({}, LOCATION=server.url, NAMESPACES=namespaces, REPLICAS=1)
    assert group.run("--burst", "--name", "w") == os.EX_CONFIG, group.output
    assert "REPLICAS is 1, and 0 replicas are connected" in group.output
    assert "started worker=w-" not in group.output


def test_a_deliverer_that_is_killed_is_replaced(group: Namespaces) -> None:
    process = group.start("--name", "w", "mail", "q")
    group.wait_for_log("sweeping outboxes", times=2)
    group.clients[DEFAULT].pause("q")
    for pid in re.findall(r"sweeping outboxes.*?pid=(\d+)", group.output):
        os.kill(int(pid), signal.SIGKILL)
    group.arrive(group.send(MAIL, "mail"), MAIL)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output


def test_a_job_moves_itself_on_though_processes_are_killed_on_its_way(
    group: Namespaces, ledger: Ledger, gate: Gate
) -> None:
    process = group.start("--name", "w")
    for name in (DEFAULT, REPORTS):
        group.wait_for_log(f"started worker=w-{name} ")
    jid = group.put(DEFAULT, "go_on", "report.x")
    # Its process dies between move_to() and the end of the run: it runs again.
    [line] = ledger.wait_until(1)
    os.kill(int(line.split()[-1]), signal.SIGKILL)
    ledger.wait_until(2)
    # Its target is away when it leaves, and what delivers it dies.
    group.away.kill()
    gate.open()
    group.wait_for_log("the outbox waits: namespace=default")
    assert group.clients[DEFAULT].get(jid) is None
    for pid in re.findall(r"sweeping outboxes.*?pid=(\d+)", group.output):
        os.kill(int(pid), signal.SIGKILL)
    group.away.start()
    group.arrive(jid, REPORTS)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, group.output
    assert ledger.all().count("arrived report.x") == 1


def test_a_name_that_is_wrong_is_named(group: Namespaces) -> None:
    assert group.run("--alias", "default/nothing") == os.EX_CONFIG
    assert "'default/nothing'" in group.output
    assert "Traceback" not in group.output


def test_namespaces_on_the_nodes_of_a_cluster(
    tmp_path: Path, server: Server, ledger: Ledger, gate: Gate
) -> None:
    with Cluster(replicas=0, timeout=60_000) as cluster:
        first, second, third = cluster.nodes
        prefixes = {
            "": cluster.prefix_on(first, "ql"),
            "mail": cluster.prefix_on(second, "mail"),
            "report.*": cluster.prefix_on(third, "r"),
        }
        clients = {
            name: Client(cluster_client(cluster.addresses, prefix), prefix)
            for name, prefix in zip(
                (DEFAULT, MAIL, REPORTS), prefixes.values(), strict=True
            )
        }
        group = Namespaces(tmp_path, server, Server(), ledger, gate)
        group.use(clients, CLUSTER=cluster.urls, NAMESPACES=prefixes)
        try:
            process = group.start("--name", "w")
            for name in clients:
                group.wait_for_log(f"started worker=w-{name} ")
            for name, queue in ((MAIL, "mail"), (REPORTS, "report.x"), (DEFAULT, "q")):
                group.complete(name, group.put(name, "greet", "x", queue=queue))
            third.kill()
            group.complete(MAIL, group.put(MAIL, "greet", "x", queue="mail"))
            third.start()
            cluster.wait_until_whole()
            group.complete(REPORTS, group.put(REPORTS, "greet", "x", queue="report.x"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, group.output
        finally:
            group.close()
