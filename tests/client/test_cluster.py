"""A namespace on a node of a real cluster: found, followed, heard."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from redis.exceptions import MovedError

from django_qless.core import (
    AsyncClient,
    Client,
    ClusterRefused,
    NotPermitted,
    NotReached,
    Settlement,
)
from django_qless.core.cluster import (
    SlotMap,
    async_cluster_client,
    cluster_client,
    hash_tag,
)
from tests.clusters import Cluster, Node, has_slot
from tests.permissions import PASSWORD, rules
from tests.real_servers import Server, available_kinds, poll

PREFIX = "{ql}:"
NOWHERE = ("127.0.0.1", 1)


@pytest.fixture(scope="module", params=available_kinds())
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three primaries without replicas."""
    with Cluster(request.param, replicas=0) as cluster:
        yield cluster


@pytest.fixture
def prefix(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace, which is empty at first."""
    name = request.node.name.replace("[", "-").rstrip("]")
    prefix = f"{{{name}}}:"
    yield prefix
    node = cluster.of(prefix).shared_client()
    for key in node.scan_iter(f"{prefix}*"):
        node.delete(key)


def client_of(cluster: Cluster, prefix: str, **options: object) -> Client:
    """Return a client that knows the last node."""
    seeds = cluster.addresses[-1:]
    return Client(cluster_client(seeds, prefix, socket_timeout=5), prefix, **options)  # type: ignore[arg-type]


def put(client: Client, number: int) -> None:
    """Put a job whose id has this number."""
    client.put("", "q", f"j{number}", "k", "{}")


@pytest.mark.parametrize(
    ("prefix", "tag"),
    [
        ("{ql}:", "ql"),
        ("a{b}c", "b"),
        ("ql:", ""),
        ("{}ql:", ""),
        ("{ql:", ""),
        ("ql}:", ""),
        ("{}{ql}:", ""),
        ("{a}{b}", "a"),
    ],
)
def test_hash_tags(prefix: str, tag: str) -> None:
    """As the servers find them: nothing between the first braces is no tag."""
    assert hash_tag(prefix) == tag


def test_an_answer_names_the_node() -> None:
    slots = SlotMap([("a", 1)], PREFIX)
    assert slots.slot == 5698
    near = [[0, 5000, ["x", 1, "id"]], [5001, 16383, ["", 7, "id"], ["y", 2, "id"]]]
    # A node that does not know its own host has the one by which it was asked.
    assert slots._read(near, ("a", 1)) == ("a", 7)
    assert slots._read([[0, 5000, ["x", 1, "id"]]], ("a", 1)) is None
    assert slots._read([[0, 16383, ["?", 1, "id"]]], ("a", 1)) is None
    slots.follow(MovedError("5698 b:9"), ("a", 1))
    assert slots.address == ("b", 9)
    slots.follow(MovedError("5698 :8"), ("a", 1))
    assert slots.address == ("a", 8)
    slots.forget()
    assert slots.address is None


def test_any_node_shows_the_way(cluster: Cluster, prefix: str) -> None:
    for seed in cluster.addresses:
        server = cluster_client([NOWHERE, seed], prefix)
        # At the first try, with the node that is away on the way.
        with Client(server, prefix, patience=0) as client:
            client.put("", "q", f"j{seed[1]}", "k", "{}")
            assert client.slot_map is not None
            assert client.slot_map.address == cluster.of(prefix).address
            assert f"slot {client.slot_map.slot}" in repr(client)
    assert len(client.queue("q").jobs("waiting")) == len(cluster.addresses)


def test_for_asyncio_too(cluster: Cluster, prefix: str) -> None:
    async def main() -> list[str]:
        server = async_cluster_client([NOWHERE, *cluster.addresses[-1:]], prefix)
        async with AsyncClient(server, prefix) as client, client.events() as events:
            await client.put("", "q", "j", "k", "{}")
            first = await events.next(30)
            await asyncio.to_thread(cluster.move, prefix)
            second = await events.next(30)
            await client.cancel("j")
            third = await events.next(30)
        return [each.event for each in (first, second, third) if each]

    assert asyncio.run(main()) == ["put", "reconnected", "canceled"]


def test_calls_while_the_slot_moves(cluster: Cluster, prefix: str) -> None:
    """Each is carried out once, on one of the nodes; none sees half a namespace."""
    with client_of(cluster, prefix, patience=60) as client:
        for number in range(100):
            put(client, number)
        put_by_others: list[int] = []

        def put_more() -> None:
            for number in range(100, 200):
                put(client, number)
                put_by_others.append(number)

        other = threading.Thread(target=put_more)
        waiting = client.get("j0")
        begun = []

        def between() -> None:
            if not begun:
                begun.append(True)
                other.start()
            # A call is refused whole: what is there is never read by halves.
            assert not put_by_others

        target = cluster.move(prefix, between)
        other.join()
        assert client.get("j0") == waiting
        assert client.slot_map is not None
        assert client.slot_map.address == target.address
        (queue,) = client.queues()
        assert queue.waiting == 200


@pytest.mark.parametrize("cluster", ["valkey"], indirect=True)
def test_a_slot_that_moves_at_once(cluster: Cluster, prefix: str) -> None:
    """As Valkey 9 can: there is no time in which calls are refused."""
    source = cluster.of(prefix)
    target = next(node for node in cluster.nodes if node is not source)
    with client_of(cluster, prefix, patience=60) as client, client.events() as events:
        for number in range(100):
            put(client, number)
            assert events.next(30).event == "put"  # type: ignore[union-attr]
        assert client.slot_map is not None
        slot = client.slot_map.slot
        source.ask(
            *("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        )
        number = 100
        while not has_slot(target, slot):
            put(client, number)
            number += 1
        put(client, number)
        (queue,) = client.queues()
        assert queue.waiting == number + 1
        while (event := events.next(30)) is not None and event.event == "put":
            pass
        assert event is not None
        assert event.event == "reconnected"


def test_a_wait_goes_on_where_the_slot_is(cluster: Cluster, prefix: str) -> None:
    with client_of(cluster, prefix, patience=60) as client:
        put(client, 1)
        idle = client.settle("w", [], count=1, queues=["other"], wait=30)
        ended: dict[str, str] = {}
        thread = threading.Thread(
            target=lambda: ended.update(client.await_ended(["j1"], 60))
        )
        thread.start()
        probe = cluster.of(prefix)
        poll(
            lambda: int(probe.shared_client().info("clients")["blocked_clients"]),
            what="the client waits",
        )
        cluster.move(prefix)
        (job,) = client.settle("w", [], count=1, queues=["q"]).jobs
        client.settle("w", [Settlement(job.jid, job.token, "complete")], 0, [])
        thread.join()
        assert ended == {"j1": "complete"}
        assert client.bzpopmin(idle.wait_keys, 0.01) is None


def test_events_go_on_where_the_slot_is(cluster: Cluster, prefix: str) -> None:
    with client_of(cluster, prefix) as client, client.events() as events:
        put(client, 1)
        assert events.next(30).jid == "j1"  # type: ignore[union-attr]
        cluster.move(prefix)
        # Without a call that would find the node.
        assert events.next(30).event == "reconnected"  # type: ignore[union-attr]
        put(client, 2)
        assert events.next(30).jid == "j2"  # type: ignore[union-attr]


def test_events_stay_on_the_node(cluster: Cluster, prefix: str) -> None:
    """What is published on a cluster's plain channels goes to all of its nodes."""
    others = [node for node in cluster.nodes if node is not cluster.of(prefix)]
    with others[0].client(decode_responses=True).pubsub() as ear:
        ear.psubscribe("*")
        assert ear.get_message(timeout=30)["type"] == "psubscribe"
        with client_of(cluster, prefix) as client:
            put(client, 1)
        cluster.of(prefix).ask("PUBLISH", "end", "")
        message = None
        while message is None:
            message = ear.get_message(timeout=30)
        assert message["channel"] == "end"


def test_the_core_is_loaded_where_the_slot_comes(cluster: Cluster, prefix: str) -> None:
    with client_of(cluster, prefix) as client:
        put(client, 1)
        for node in cluster.nodes:
            node.ask("FUNCTION", "FLUSH")
        cluster.move(prefix)
        put(client, 2)
        assert client.libraries() == [client.script.library.name]


def test_permissions(cluster: Cluster, prefix: str) -> None:
    """What the document adds for a cluster is enough, and is named where it is missing."""
    seeds = cluster.addresses
    documented = rules(cluster.nodes[0].kind, "worker")
    more = ("+cluster|slots", "+spublish", "+ssubscribe", f"~{prefix}*", f"&{prefix}*")

    def allow(*rights: str) -> None:
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "clustered", *documented, *rights)

    def client() -> Client:
        server = cluster_client(seeds, prefix, username="clustered", password=PASSWORD)
        return Client(server, prefix, patience=1)

    allow(*more)
    with client() as user, user.events() as events:
        put(user, 1)
        assert events.next(30).jid == "j1"  # type: ignore[union-attr]
    allow(*more, "-spublish", "-ssubscribe")
    # Redis 7.0 does not name a command that is refused inside the core.
    named = "permissions" if cluster.nodes[0].kind == "redis" else r"\+spublish"
    with client() as user, pytest.raises(NotPermitted, match=named):
        put(user, 2)
    allow(*more, "-cluster|slots")
    with client() as user, pytest.raises(NotPermitted, match=r"\+cluster\|slots"):
        put(user, 2)
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "clustered")


def test_a_client_that_knows_of_no_cluster(cluster: Cluster, prefix: str) -> None:
    other = next(node for node in cluster.nodes if node is not cluster.of(prefix))
    with (
        Client(other.client(), prefix) as client,
        pytest.raises(ClusterRefused, match="CLUSTER"),
    ):
        put(client, 1)


def test_a_server_that_is_in_no_cluster() -> None:
    with Server("valkey", tcp=True) as server:
        address = ("127.0.0.1", server.port)
        with (
            Client(cluster_client([address], PREFIX), PREFIX) as client,
            pytest.raises(
                ClusterRefused, match=f"{server.port} is not in cluster mode"
            ),
        ):
            put(client, 1)


def test_no_node_has_the_slot() -> None:
    with (
        Node("valkey", timeout=2000) as node,
        Client(cluster_client([node.address], PREFIX), PREFIX, patience=0.05) as client,
        pytest.raises(NotReached, match=f"{node.port}: no node has slot 5698"),
    ):
        put(client, 1)


def test_no_node_answers() -> None:
    with (
        Client(cluster_client([NOWHERE], PREFIX), PREFIX, patience=0.05) as client,
        pytest.raises(NotReached, match=r"where slot 5698 is \(127.0.0.1:1: "),
    ):
        put(client, 1)
