"""A cluster of six nodes on this machine, for the time of the demo."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import redis

from django_qless.servers.embedded import server_binary

PRIMARIES = 3
NODES = 2 * PRIMARIES
SLOTS = 16384

# No outgoing connection gets one of these. Nodes talk to each other on the second half.
PORTS = range(20000, 32000)

PATIENCE = 30.0


class NoCluster(Exception):
    """The nodes cannot be started; the message says why."""


class LocalCluster:
    """Six nodes: three primaries, and a replica for each."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="qless-cluster-")
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._ports = list(free_ports(2 * NODES))

    def __enter__(self) -> LocalCluster:
        try:
            self._start()
            self._join()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def urls(self) -> list[str]:
        """What CLUSTER names."""
        return [f"redis://127.0.0.1:{port}" for port in self._ports[:NODES]]

    def close(self) -> None:
        """Ends the nodes and removes their data."""
        for node in self._nodes:
            node.terminate()
        for node in self._nodes:
            node.wait()
        self._nodes.clear()
        self._folder.cleanup()

    def _start(self) -> None:
        binary = server_binary()
        if binary is None:
            raise NoCluster("pip install 'django-qless[embedded]'")
        for number in range(NODES):
            folder = Path(self._folder.name, f"node{number}")
            folder.mkdir()
            command = [
                *(binary, "--bind", "127.0.0.1", "--dir", str(folder)),
                *("--port", str(self._ports[number])),
                *("--cluster-port", str(self._ports[NODES + number])),
                *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000"),
                *("--appendonly", "yes", "--save", "", "--daemonize", "no"),
                *("--repl-diskless-sync-delay", "0"),
            ]
            with (folder / "server.log").open("wb") as log:
                # Ctrl-C is for the demo, which then ends the nodes in order.
                node = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True
                )
            self._nodes.append(node)

    def _join(self) -> None:
        """Share the slots, introduce the nodes to each other, give each its replica."""
        nodes = [
            redis.Redis(port=port, decode_responses=True)
            for port in self._ports[:NODES]
        ]
        for node in nodes:
            wait_until(lambda node=node: answers(node), "a node answers")
        for number, node in enumerate(nodes):
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            if number < PRIMARIES:
                first, end = (SLOTS * n // PRIMARIES for n in (number, number + 1))
                node.execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
        for port, bus in list(
            zip(self._ports[:NODES], self._ports[NODES:], strict=True)
        )[1:]:
            nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port, bus)
        ids = [str(node.execute_command("CLUSTER MYID")) for node in nodes]
        for node in nodes:
            wait_until(lambda node=node: knows(node, ids), "the nodes know each other")
        for number, node in enumerate(nodes[PRIMARIES:]):
            node.execute_command("CLUSTER REPLICATE", ids[number])
        for node in nodes:
            wait_until(lambda node=node: is_whole(node), "the cluster is whole")
            node.close()


def free_ports(number: int) -> Iterator[int]:
    """Yields so many ports that nothing listens on."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            yield port
            number -= 1
        if not number:
            return
    raise NoCluster("no ports are free")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Returns when the condition holds. Raises NoCluster after a while."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise NoCluster(f"waited for {PATIENCE:g} s until {what}")
        time.sleep(0.05)


def answers(node: redis.Redis) -> bool:
    """Returns whether a node can be asked."""
    with contextlib.suppress(redis.RedisError):
        return bool(node.ping())
    return False


def knows(node: redis.Redis, ids: list[str]) -> bool:
    """Returns whether a node has met all of these."""
    known = node.execute_command("CLUSTER NODES")
    return {each for each in ids if each in str(known)} == {*ids}


def is_whole(node: redis.Redis) -> bool:
    """Returns whether a node finds all slots, and is linked to its primary."""
    state = node.info("replication")
    linked = "up" if state["role"] == "master" else state["master_link_status"]
    return "cluster_state:ok" in str(raw_info(node)) and linked == "up"


def raw_info(node: redis.Redis) -> object:
    """Returns the reply to CLUSTER INFO."""
    node.response_callbacks.pop("CLUSTER INFO", None)
    return node.execute_command("CLUSTER INFO")
