"""The node of a cluster that has a namespace: looked up, and followed when it moves.

All keys of a namespace have one hash tag, so they are in one slot, and that is on one node at
a time. Connections go to this node and send what they would send to a single server. Any node
says where the slot is; one that is asked for a slot of another answers MOVED.

Each call declares two keys, the first of which never exists. So while the slot moves, each of
the two nodes answers TRYAGAIN or ASK, and the call is repeated until one of them has the whole
slot: to follow ASK would only bring the TRYAGAIN of the other node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.connection import Connection as RedisAsyncConnection
from redis.asyncio.connection import ConnectionPool as AsyncConnectionPool
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.connection import Connection as RedisConnection
from redis.connection import ConnectionPool, SSLConnection
from redis.crc import key_slot
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from .request import Steps, adrive, drive

#: Seconds for connecting to a node that is asked where the slot is, and for its answer.
LOOKUP_SECONDS = 1.0

Address = tuple[str, int]


def hash_tag(prefix: str) -> str:
    """Return the part of a prefix that a cluster hashes, "" without one."""
    tag, closing, _ = prefix.partition("{")[2].partition("}")
    return tag if closing else ""


class SlotMap:
    """Where the slot of a namespace is; shared by the connections of a client."""

    def __init__(self, seeds: Iterable[Address], prefix: str) -> None:
        #: The nodes that were named.
        self.seeds = tuple(seeds)
        #: The number of the slot.
        self.slot = int(key_slot(prefix.encode()))
        #: Where it was last; None: ask.
        self.address: Address | None = None
        # All nodes that are known; who did not answer is asked last.
        self._nodes: list[Address] = []

    def forget(self) -> None:
        """Ask a node before the next connection: this one was lost."""
        self.address = None

    def follow(self, error: BaseException, asked: Address) -> None:
        """Note where the slot is, as the MOVED of the node at `asked` says."""
        host, port = getattr(error, "host", ""), int(getattr(error, "port", 0))
        self.address = (host or asked[0], port) if port else None

    def find(self, connection: Any) -> Steps[Address]:
        """Return where the slot is; ask the nodes over such connections if need be."""
        if self.address is not None:
            return self.address
        troubles: list[str] = []
        for node in list(dict.fromkeys((*self._nodes, *self.seeds))):
            try:
                ranges = yield from _ask(connection, node)
            except (RedisError, OSError) as error:
                if is_no_cluster(error):
                    raise _no_cluster(node) from error
                if isinstance(error, (AuthenticationError, NoPermissionError)):
                    raise
                troubles.append(f"{_text(node)}: {str(error) or repr(error)}")
                self._ask_last(node)
                continue
            found = self._read(ranges, node)
            if found is not None:
                self.address = found
                # Another node is asked the next time: this one may be cut off.
                self._ask_last(node)
                return found
            troubles.append(f"{_text(node)}: no node has slot {self.slot}")
        raise RedisConnectionError(
            f"No node of the cluster says where slot {self.slot} is "
            f"({'; '.join(troubles)})"
        )

    def _read(self, ranges: Any, asked: Address) -> Address | None:
        """Note all nodes that the reply to CLUSTER SLOTS names; return the slot's."""
        found, nodes = None, []
        for first, last, *places in ranges:
            # A node whose host is not known has that of the node that was asked.
            there = [(host or asked[0], int(port)) for host, port, *_ in places]
            nodes += [place for place in there if place[0] != "?"]
            if int(first) <= self.slot <= int(last) and there[0][0] != "?":
                found = there[0]
        known = [node for node in self._nodes if node in nodes]
        self._nodes = list(dict.fromkeys((*known, *nodes)))
        return found

    def _ask_last(self, node: Address) -> None:
        others = [each for each in (*self._nodes, *self.seeds) if each != node]
        self._nodes = [*dict.fromkeys(others), node]


def _ask(connection: Any, node: Address) -> Steps[Any]:
    """Return what a node answers to CLUSTER SLOTS."""
    connection.host, connection.port = node
    try:
        yield connection.connect()
        yield connection.send_command("CLUSTER", "SLOTS")
        return (yield connection.read_response())
    finally:
        yield connection.disconnect()


def is_no_cluster(error: BaseException) -> bool:
    """Return whether a server has refused a lookup as it is not in cluster mode."""
    return isinstance(error, ResponseError) and "cluster support disabled" in str(error)


def _no_cluster(node: Address) -> ResponseError:
    return ResponseError(f"NOCLUSTER {_text(node)} is not in cluster mode")


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


class _OfNode:
    """Part of a connection that goes to the node that has the slot."""

    host: str
    port: int

    def __init__(self, *, slot_map: SlotMap, **options: Any) -> None:
        super().__init__(**options)
        self.slot_map = slot_map
        self._options = options

    def _lookup(self) -> Any:
        """Return a connection for asking a node where the slot is."""
        seconds = {
            name: min(LOOKUP_SECONDS, self._options.get(name) or LOOKUP_SECONDS)
            for name in ("socket_timeout", "socket_connect_timeout")
        }
        plain = next(
            kind for kind in type(self).__mro__ if not issubclass(kind, _OfNode)
        )
        return plain(**{**self._options, **seconds})

    def look_again(self) -> None:
        """Ask where the slot is before connecting again."""
        self.slot_map.forget()

    def follow(self, error: BaseException) -> None:
        """Connect to where a MOVED points, the next time."""
        self.slot_map.follow(error, (self.host, self.port))


class NodeConnection(_OfNode, RedisConnection):
    """A connection to the node that has the slot, for blocking code."""

    def _connect(self) -> Any:
        self.host, self.port = drive(self.slot_map.find(self._lookup()))
        return super()._connect()  # type: ignore[no-untyped-call]


class NodeSSLConnection(_OfNode, SSLConnection):
    """A connection to the node that has the slot, with TLS."""

    def _connect(self) -> Any:
        self.host, self.port = drive(self.slot_map.find(self._lookup()))
        return super()._connect()  # type: ignore[no-untyped-call]


class AsyncNodeConnection(_OfNode, RedisAsyncConnection):
    """A connection to the node that has the slot, for asyncio."""

    async def _connect(self) -> None:
        self.host, self.port = await adrive(self.slot_map.find(self._lookup()))
        await super()._connect()  # type: ignore[no-untyped-call]


class AsyncNodeSSLConnection(_OfNode, AsyncSSLConnection):
    """A connection to the node that has the slot, with TLS."""

    async def _connect(self) -> None:
        self.host, self.port = await adrive(self.slot_map.find(self._lookup()))
        await super()._connect()  # type: ignore[no-untyped-call]


def cluster_client(
    seeds: Sequence[Address], prefix: str, *, ssl: bool = False, **options: Any
) -> redis.Redis:
    """Return a redis-py client of the node that has a prefix's slot, for Client.

    `seeds` are pairs of host and port of some nodes; `options` go to redis-py's
    connections. Nothing is connected yet.
    """
    kind = NodeSSLConnection if ssl else NodeConnection
    pool = ConnectionPool(kind, slot_map=SlotMap(seeds, prefix), **options)
    return redis.Redis(connection_pool=pool)


def async_cluster_client(
    seeds: Sequence[Address], prefix: str, *, ssl: bool = False, **options: Any
) -> redis.asyncio.Redis:
    """Return the same for AsyncClient."""
    kind = AsyncNodeSSLConnection if ssl else AsyncNodeConnection
    pool = AsyncConnectionPool(kind, slot_map=SlotMap(seeds, prefix), **options)
    return redis.asyncio.Redis(connection_pool=pool)


def slot_map_of(client: Any) -> SlotMap | None:
    """Return where the client's namespace is in a cluster; None without a cluster."""
    options: Mapping[str, Any] = client.connection_pool.connection_kwargs
    return options.get("slot_map")
