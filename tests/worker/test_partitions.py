"""A worker of a queue that is split: a process for each partition, on several servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_qless.core import Client
from django_qless.core.cluster import cluster_client
from tests.clusters import Cluster
from tests.real_servers import Server
from tests.worker.test_namespaces import Namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worker.ledger import Gate, Ledger

PARTITIONS = [f"default/q:{index}" for index in range(4)]
QUEUES = {"q": {"partitions": 4}}


@pytest.fixture
def group(
    tmp_path: Path, server: Server, ledger: Ledger, gate: Gate
) -> Iterator[Namespaces]:
    with Server() as there:
        group = Namespaces(tmp_path, server, there, ledger, gate)
        clients = {
            name: Client(server.client(), f"ql-q-{index}:")
            for index, name in enumerate(PARTITIONS[:3])
        }
        clients[PARTITIONS[3]] = Client(there.client(), "ql-q-3:")
        namespaces = {"": "ql:", "q:3": {"LOCATION": there.url}}
        group.use(clients, LOCATION=server.url, QUEUES=QUEUES, NAMESPACES=namespaces)
        yield group
        group.close()


def test_one_command_drains_all_partitions(group: Namespaces, ledger: Ledger) -> None:
    jids = [
        (name, group.put(name, "greet", f"{name}-{number}"))
        for name in PARTITIONS
        for number in range(5)
    ]
    assert group.run("q", "--burst", "--concurrency", "4") == 0, group.output
    assert {group.state(*each) for each in jids} == {"complete"}
    assert len(ledger.all()) == 20


def test_some_partitions_are_served_on_this_host(group: Namespaces) -> None:
    jids = {name: group.put(name, "greet", "x") for name in PARTITIONS}
    assert group.run("q", "--burst", "--partition", "1-2", "--name", "w") == 0
    states = [group.state(name, jid) for name, jid in jids.items()]
    assert states == ["waiting", "complete", "complete", "waiting"], group.output
    assert group.run("q", "--burst", "--partition", "7") == 2
    assert "no queue that is served has a partition 7" in group.output


def test_partitions_on_the_nodes_of_a_cluster(
    tmp_path: Path, server: Server, ledger: Ledger, gate: Gate
) -> None:
    with Cluster(replicas=0, timeout=60_000) as cluster:
        prefixes = [f"{{ql-q-{index}}}:" for index in range(4)]
        assert len({id(cluster.of(prefix)) for prefix in prefixes}) > 1
        clients = {
            name: Client(cluster_client(cluster.addresses, prefix), prefix)
            for name, prefix in zip(PARTITIONS, prefixes, strict=True)
        }
        group = Namespaces(tmp_path, server, Server(), ledger, gate)
        group.use(clients, CLUSTER=cluster.urls, PREFIX="{ql}:", QUEUES=QUEUES)
        try:
            jids = {name: group.put(name, "greet", name) for name in PARTITIONS}
            assert group.run("q", "--burst") == 0, group.output
            for name, jid in jids.items():
                assert group.state(name, jid) == "complete"
        finally:
            group.close()
