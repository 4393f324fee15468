"""Clusters of real servers on free ports: moved slots, killed primaries, new ones."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import redis

from django_qless.core.cluster import SlotMap
from tests.real_servers import Server, poll

SLOTS = 16384

# Below those that outgoing connections get: a node that is started again finds its port free.
PORTS = range(20000, 32000)

# How often a node is tried whose port was taken meanwhile.
TRIES = 5


def listening_port() -> int:
    """Return a free port that no outgoing connection takes."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


class Node(Server):
    """A server in cluster mode; started again it is the same node."""

    def __init__(self, kind: str, *, timeout: int) -> None:
        self.bus = listening_port()
        super().__init__(
            kind,
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(timeout)),
            *("--cluster-port", str(self.bus)),
            # A replica that comes is served at once, and may be promoted at any age.
            *("--repl-diskless-sync-delay", "0"),
            *("--cluster-replica-validity-factor", "0"),
            tcp=True,
        )
        self.port = listening_port()
        #: Whether it is stopped, with its connections open.
        self.hangs = False

    def hang(self) -> None:
        """Answer nothing, with all connections open."""
        self.hangs = True
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Go on after `hang`."""
        os.kill(self.pid, signal.SIGCONT)
        self.hangs = False

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
    """Primaries that share the slots evenly, each with the same number of replicas."""

    def __init__(
        self,
        kind: str = "valkey",
        *,
        primaries: int = 3,
        replicas: int = 1,
        timeout: int = 2000,
    ) -> None:
        self._stack = ExitStack()
        self._kind, self._timeout = kind, timeout
        self._primaries, self._number = primaries, primaries * (1 + replicas)
        self.nodes: list[Node] = []

    def __enter__(self) -> Cluster:
        try:
            while len(self.nodes) < self._number:
                self.nodes.append(self._started())
            self._join()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _started(self) -> Node:
        """Return a new node; another program may have been faster to take a port."""
        for _ in range(TRIES):
            node = Node(self._kind, timeout=self._timeout)
            try:
                return self._stack.enter_context(node)
            except RuntimeError:
                node.close()
        raise RuntimeError(f"{TRIES} nodes did not start")

    def _join(self) -> None:
        primaries, others = self.nodes[: self._primaries], self.nodes[self._primaries :]
        for number, node in enumerate(self.nodes, 1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number)
        for number, node in enumerate(primaries):
            first = SLOTS * number // len(primaries)
            last = SLOTS * (number + 1) // len(primaries) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", *node.address, node.bus)
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
        """The nodes that run, and answer."""
        return [node for node in self.nodes if node.running and not node.hangs]

    def wait_until_whole(self) -> None:
        """Return when each running node finds all slots, and all replicas have all."""
        for node in self.running:
            poll(lambda node=node: is_whole(node), what="the cluster is whole")  # type: ignore[misc]

    def of(self, prefix: str) -> Node:
        """Return the primary of the namespace with this prefix."""
        slot = slot_of(prefix)

        def found() -> Node | None:
            return next((node for node in self.running if has_slot(node, slot)), None)

        return poll(found, what=f"a node has slot {slot}")

    def primaries(self) -> list[Node]:
        """Return the running nodes that are primaries of slots."""
        return [node for node in self.running if slots_of(node)]

    def replicas_of(self, primary: Node) -> list[Node]:
        """Return the running nodes that follow a primary."""
        words = [line.split() for line in _nodes(primary).splitlines()]
        found = {each[0] for each in words if each[3] == primary.id}
        return [node for node in self.running if node.id in found]

    def move(
        self,
        prefix: str,
        between: Callable[[], Any] = lambda: None,
        at_once: int = 20,
    ) -> Node:
        """Move the slot of a prefix to another primary, key by key; return that.

        `between` is called while some of the keys are here and some there.
        """
        slot, source, target = self._way(prefix)
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

    def move_at_once(self, prefix: str) -> Node:
        """Do the same as Valkey 9 can: the other node has all of it, or nothing."""
        slot, source, target = self._way(prefix)
        source.ask(
            *("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        )
        poll(lambda: has_slot(target, slot), what=f"slot {slot} has moved")
        return target

    def _way(self, prefix: str) -> tuple[int, Node, Node]:
        """Return the slot of a prefix, its primary, and the one after that."""
        slot, source, nodes = slot_of(prefix), self.of(prefix), self.primaries()
        return slot, source, nodes[(nodes.index(source) + 1) % len(nodes)]

    def prefix_on(self, node: Node, tag: str) -> str:
        """Return a prefix whose slot this node has, with a hash tag that begins so."""
        ranges = slots_of(node)
        for number in itertools.count():
            prefix = f"{{{tag}{number}}}:"
            slot = slot_of(prefix)
            if any(first <= slot <= last for first, last in ranges):
                return prefix
        raise AssertionError


def slot_of(prefix: str) -> int:
    """Return the slot of a namespace."""
    return SlotMap((), prefix).slot


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
