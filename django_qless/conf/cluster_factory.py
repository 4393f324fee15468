"""Connections to the node of a cluster that has the namespace, for `CLUSTER`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
from redis.connection import SSLConnection, parse_url

from django_qless.conf.sentinel_factory import SERVER_SECONDS
from django_qless.core.cluster import Address, async_cluster_client, cluster_client


@dataclass(frozen=True, slots=True)
class ClusterFactory:
    """Arguments for connections to one node of a cluster, blocking and asyncio alike."""

    seeds: tuple[Address, ...]
    prefix: str
    ssl: bool
    options: dict[str, Any]

    def client(self) -> redis.Redis:
        """Return a redis-py client with a new pool; nothing is connected yet."""
        return cluster_client(self.seeds, self.prefix, ssl=self.ssl, **self.options)

    def async_client(self) -> redis.asyncio.Redis:
        """Return an asyncio client with a new pool; nothing is connected yet."""
        return async_cluster_client(
            self.seeds, self.prefix, ssl=self.ssl, **self.options
        )

    @property
    def database(self) -> tuple[Any, ...]:
        """The cluster, for comparison."""
        return (("cluster", *sorted(self.seeds)), 0)


def factory_from_nodes(
    urls: Sequence[str], prefix: str, options: Mapping[str, Any]
) -> ClusterFactory:
    """Return the factory of the cluster of these nodes; options go over the URLs."""
    parsed = [parsed_node(url) for url in urls]
    common = {
        name: value
        for name, value in parsed[0].items()
        if name not in ("host", "port", "db", "connection_class")
    }
    return ClusterFactory(
        tuple((node["host"], node["port"]) for node in parsed),
        prefix,
        parsed[0].get("connection_class") is SSLConnection,
        {"socket_timeout": SERVER_SECONDS, **common, **options},
    )


def parsed_node(url: str) -> dict[str, Any]:
    """Return what the URL of a node says. Raises ValueError."""
    parsed: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    return {"host": "localhost", "port": 6379, **parsed}
