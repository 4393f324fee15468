"""Checks of the server before the first job: usability, and safety of jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

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
    _check_replicas(info, wanted_replicas(client))
    return [str(risk) for risk in risks_of(client, info)]


def risks_of(client: Client, info: Mapping[str, str | int]) -> Iterator[Risk]:
    """Yield the risks on the server of a client, which has this INFO."""
    if info.get("cluster_enabled") == 1 and client.slot_map is None:
        yield Risk(
            gettext_noop(
                "The server is a node of a cluster, and is not named in CLUSTER: when its "
                "keys move to another node, or it dies, no job can be enqueued or run. "
                "Name the nodes in CLUSTER."
            )
        )
    yield from risks(info, wanted_replicas(client))


def wanted_replicas(client: Client) -> int:
    """Return how many replicas must have a put before it is acknowledged."""
    return client.replication.replicas if client.replication else 0


def _check_replicas(info: Mapping[str, str | int], wanted: int) -> None:
    """Raise CannotStart if REPLICAS is set and the server never had a replica.

    The server keeps a backlog for an hour for replicas that it has lost: those may come
    back, and jobs must run until then.
    """
    never = not info.get("connected_slaves") and info.get("repl_backlog_active") == 0
    if wanted and never:
        text = next(risk for risk in risks(info, wanted) if "wanted" in risk.values)
        raise CannotStart(str(text), os.EX_CONFIG)


class Risk(NamedTuple):
    """A state of the server that may lose jobs, or stop it from taking them."""

    text: str
    """A sentence with the remedy; `%(name)s` stands for a value."""
    values: Mapping[str, str | int] = {}
    """Numbers are bytes."""

    def __str__(self) -> str:
        sizes = {
            name: f"{value:,} bytes" if isinstance(value, int) else value
            for name, value in self.values.items()
        }
        return self.text % sizes


def gettext_noop(text: str) -> str:
    """Mark a text for translation, as Django's function of this name, and return it."""
    return text


def risks(info: Mapping[str, str | int], wanted: int = 0) -> Iterator[Risk]:
    """Yield the risks on a server with this INFO, the worst first.

    `wanted` is how many replicas must have a put.
    """
    connected = info.get("connected_slaves", 0)
    if isinstance(connected, int) and connected < wanted:
        yield Risk(
            gettext_noop(
                "REPLICAS is %(wanted)s, and %(connected)s replicas are connected: "
                "whatever is enqueued raises NotReplicated. Add replicas, or lower REPLICAS."
            ),
            {"wanted": str(wanted), "connected": str(connected)},
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield Risk(
            gettext_noop(
                "The eviction policy is %(policy)s: a full server would throw away jobs. "
                "Set maxmemory-policy to noeviction."
            ),
            {"policy": policy},
        )
    if info.get("aof_enabled") == 0:
        yield Risk(
            gettext_noop(
                "There is no append-only file: after a crash the server has lost jobs. Set "
                "appendonly to yes."
            )
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        yield Risk(
            gettext_noop(
                "The append-only file could not be written: look at the server's disk and "
                "its log."
            )
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Risk(
            gettext_noop(
                "The last snapshot failed, and the server may refuse to write: look at its "
                "disk and its log."
            )
        )
    used, limit = info.get("used_memory", 0), info.get("maxmemory", 0)
    if (
        isinstance(used, int)
        and isinstance(limit, int)
        and 0 < NEARLY_FULL * limit < used
    ):
        yield Risk(
            gettext_noop(
                "%(used)s of %(limit)s are used: soon no job can be enqueued. Raise "
                "maxmemory, keep fewer completed jobs (jobs-history), or add workers."
            ),
            {"used": used, "limit": limit},
        )
    if info.get("role", "master") != "master":
        yield Risk(
            gettext_noop(
                "This is a replica: no job can be enqueued. Name its primary in QLESS."
            )
        )
