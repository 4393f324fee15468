"""Clusters of real servers on free ports: moved slots, killed primaries, new ones."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import redis

from django_qless.core.cluster import SlotMap
from tests.real_servers import Server, poll

SLOTS = 16384

# The port by which nodes talk to each other is so much above, if it is not given.
BUS = 10000


def bus_port() -> int:
    """Return a free port for what the nodes tell each other."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Node(Server):
    """A server in cluster mode; started again it is the same node."""

    def __init__(self, kind: str, *, timeout: int) -> None:
        super().__init__(
            kind,
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout)),
            *("--cluster-port", str(bus_port())),
            # A replica that comes is served at once.
            *("--repl-diskless-sync-delay", "0"),
            *("--cluster-replica-validity-factor", "0"),
            tcp=True,
        )

    def ask(self, *words: Any) -> Any:
        """Return the answer to a command."""
        return self.shared_client(decode_responses=True).execute_command(*words)

    @property
    def id(self) -> str:
        """The name of the node in the cluster."""
        return str(self.ask("CLUSTER", "MYID"))

    @property
    def address(self) -> tuple[str, int]:
        """Where clients reach it."""
        return ("127.0.0.1", self.port)


class Cluster:
    """Primaries that share the slots evenly, each with so many replicas."""

    def __init__(
        self,
        kind: str = "valkey",
        *,
        primaries: int = 3,
        replicas: int = 1,
        timeout: int = 2000,
    ) -> None:
        self._stack = ExitStack()
        self._primaries, self._replicas = primaries, replicas
        self.nodes = [
            Node(kind, timeout=timeout) for _ in range(primaries * (1 + replicas))
        ]

    def __enter__(self) -> Cluster:
        try:
            for node in self.nodes:
                self._stack.enter_context(node)
            self._join()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _join(self) -> None:
        primaries, others = self.nodes[: self._primaries], self.nodes[self._primaries :]
        for number, node in enumerate(self.nodes, 1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number)
        for number, node in enumerate(primaries):
            first = SLOTS * number // len(primaries)
            last = SLOTS * (number + 1) // len(primaries) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        bus = [
            node.arguments[node.arguments.index("--cluster-port") + 1]
            for node in self.nodes
        ]
        for node, port in zip(self.nodes[1:], bus[1:], strict=True):
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", node.port, port)
        everybody = {node.id for node in self.nodes}
        for node in self.nodes:
            poll(
                lambda node=node: everybody <= {*ids(node)},  # type: ignore[misc]
                what="the nodes know each other",
            )
        for number, node in enumerate(others):
            node.ask("CLUSTER", "REPLICATE", primaries[number % len(primaries)].id)
        self.wait_until_whole()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where clients reach the nodes."""
        return [node.address for node in self.nodes]

    @property
    def urls(self) -> list[str]:
        """What CLUSTER names."""
        return [node.tcp_url for node in self.nodes]

    @property
    def settings(self) -> dict[str, Any]:
        """What an alias of QLESS says to connect to it."""
        return {"CLUSTER": self.urls, "PREFIX": "{ql}:"}

    @property
    def running(self) -> list[Node]:
        """The nodes that run."""
        return [node for node in self.nodes if node.running]

    def wait_until_whole(self) -> None:
        """Return when each running node finds all slots, and all replicas have all."""
        for node in self.running:
            poll(lambda node=node: is_whole(node), what="the cluster is whole")  # type: ignore[misc]

    def of(self, prefix: str) -> Node:
        """Return the primary of the namespace with this prefix."""
        slot = SlotMap((), prefix).slot

        def found() -> Node | None:
            return next((node for node in self.running if has_slot(node, slot)), None)

        return poll(found, what=f"a node has slot {slot}")

    def primaries(self) -> list[Node]:
        """Return the running nodes that are primaries of slots."""
        return [node for node in self.running if slots_of(node)]

    def move(
        self,
        prefix: str,
        between: Callable[[], Any] = lambda: None,
        at_once: int = 20,
    ) -> Node:
        """Move the slot of a prefix to another primary, key by key; return that.

        `between` is called while some of the keys are here and some there.
        """
        slot, source = SlotMap((), prefix).slot, self.of(prefix)
        target = next(node for node in self.primaries() if node is not source)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        between()
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, at_once):
            source.ask("MIGRATE", *target.address, "", 0, 5000, "KEYS", *keys)
            between()
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        for node in self.primaries():
            with contextlib.suppress(redis.ResponseError):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        return target

    def kill_primary(self, prefix: str) -> tuple[Node, Node]:
        """Kill the primary of a prefix; return it, and the replica that was promoted."""
        slot, killed = SlotMap((), prefix).slot, self.of(prefix)
        killed.kill()

        def promoted() -> Node | None:
            return next((node for node in self.running if has_slot(node, slot)), None)

        return killed, poll(promoted, what="a replica is promoted")


def ids(node: Node) -> list[str]:
    """Return the nodes that this one has met."""
    lines = _nodes(node).splitlines()
    return [line.split()[0] for line in lines if "handshake" not in line]


def _nodes(node: Node) -> str:
    with node.client() as probe:
        probe.response_callbacks.clear()
        return bytes(probe.execute_command("CLUSTER", "NODES")).decode()


def slots_of(node: Node) -> list[tuple[int, int]]:
    """Return the ranges of slots that the node itself has."""
    line = next(line for line in _nodes(node).splitlines() if "myself" in line)
    words = line.split()
    if "master" not in words[2]:
        return []
    ranges = []
    for word in words[8:]:
        if not word.startswith("["):
            first, _, last = word.partition("-")
            ranges.append((int(first), int(last or first)))
    return ranges


def has_slot(node: Node, slot: int) -> bool:
    """Return whether the node is the primary of this slot."""
    with contextlib.suppress(redis.RedisError):
        return any(first <= slot <= last for first, last in slots_of(node))
    return False


def is_whole(node: Node) -> bool:
    """Return whether the node finds all slots, and has all of its primary."""
    with contextlib.suppress(redis.RedisError), node.client() as probe:
        probe.response_callbacks.clear()
        info = bytes(probe.execute_command("CLUSTER", "INFO")).decode()
        state = bytes(probe.execute_command("INFO", "replication")).decode()
        linked = "role:master" in state or "master_link_status:up" in state
        return "cluster_state:ok" in info and linked
    return False
