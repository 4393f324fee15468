"""Checks of the server before the first job: usability, and safety of jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django_qless.core import exceptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django_qless.core import Client

#: The part of maxmemory from which on a server counts as nearly full.
NEARLY_FULL = 0.8

UNKNOWN = (
    "it is not known whether the server may lose jobs: its user lacks +info, "
    "see docs/permissions.md"
)


class CannotStart(Exception):
    """The worker cannot start; `code` is the exit code, one of sysexits.h."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


# Exit codes by error. A service manager may try again after EX_UNAVAILABLE; the others
# need a person.
EXIT_CODES: tuple[tuple[type[exceptions.QlessError], int], ...] = (
    (exceptions.NotAuthenticated, os.EX_NOPERM),
    (exceptions.NotPermitted, os.EX_NOPERM),
    (exceptions.ServerTooOld, os.EX_CONFIG),
    (exceptions.ClusterRefused, os.EX_CONFIG),
    (exceptions.UnsupportedFormat, os.EX_CONFIG),
    (exceptions.ServerError, os.EX_UNAVAILABLE),
    (exceptions.QlessError, os.EX_SOFTWARE),
)


def check_server(client: Client) -> list[str]:
    """Return warnings about the server; raise CannotStart if it cannot be used."""
    try:
        client.meta()
    except exceptions.QlessError as error:
        code = next(code for kind, code in EXIT_CODES if isinstance(error, kind))
        raise CannotStart(str(error), code) from error
    try:
        info = client.server_info()
    except exceptions.NotPermitted:
        return [UNKNOWN]
    except exceptions.QlessError:
        return []
    wanted = wanted_replicas(client)
    # The server keeps a backlog for an hour for replicas that it has lost: those may come
    # back, and jobs must run until then.
    never_had_any = info.get("repl_backlog_active") == 0
    if never_had_any and not info.get("connected_slaves") and wanted:
        raise CannotStart(_too_few_replicas(0, wanted), os.EX_CONFIG)
    return list(risks_of(client, info))


def wanted_replicas(client: Client) -> int:
    """Return how many replicas must have a put before it is acknowledged."""
    return client.replication.replicas if client.replication else 0


def risks_of(client: Client, info: Mapping[str, str | int]) -> Iterator[str]:
    """Yield the risks on the server of a client, which has this INFO."""
    if info.get("cluster_enabled") == 1 and client.slot_map is None:
        yield (
            "The server is a node of a cluster, and is not named in CLUSTER: when its "
            "keys move to another node, or it dies, no job can be enqueued or run. "
            "Name the nodes in CLUSTER."
        )
    yield from risks(info, wanted_replicas(client))


def risks(info: Mapping[str, str | int], wanted: int = 0) -> Iterator[str]:
    """Yield what may lose jobs on a server with this INFO, or stop it from taking them.

    Each is a sentence with the remedy, the worst first. `wanted` is how many replicas
    must have a put.
    """
    if (connected := _number(info, "connected_slaves")) < wanted:
        yield _too_few_replicas(connected, wanted)
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield (
            f"The eviction policy is {policy}: a full server would throw away jobs. Set "
            "maxmemory-policy to noeviction."
        )
    if info.get("aof_enabled") == 0:
        yield (
            "There is no append-only file: after a crash the server has lost jobs. Set "
            "appendonly to yes."
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        yield (
            "The append-only file could not be written: look at the server's disk and "
            "its log."
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield (
            "The last snapshot failed, and the server may refuse to write: look at its "
            "disk and its log."
        )
    used, limit = _number(info, "used_memory"), _number(info, "maxmemory")
    if 0 < NEARLY_FULL * limit < used:
        yield (
            f"{used / limit:.0%} of maxmemory is used: soon no job can be enqueued. Raise "
            "maxmemory, keep fewer completed jobs (jobs-history), or add workers."
        )
    if info.get("role", "master") != "master":
        yield "This is a replica: no job can be enqueued. Name its primary in QLESS."


def _too_few_replicas(connected: int, wanted: int) -> str:
    return (
        f"REPLICAS is {wanted}, and {connected} replicas are connected: whatever is "
        "enqueued raises NotReplicated. Add replicas, or lower REPLICAS."
    )


def _number(info: Mapping[str, str | int], name: str) -> int:
    value = info.get(name)
    return value if isinstance(value, int) else 0
