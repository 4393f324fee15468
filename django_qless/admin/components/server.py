"""The server of an alias: version, memory, persistence, and dangers for jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from django_qless.admin import formatting
from django_qless.admin.formatting import number
from django_qless.core import QlessError
from django_qless.worker.server_checks import risks_of

if TYPE_CHECKING:
    from django_qless.core import Client


@dataclass(frozen=True)
class ServerFacts:
    """The facts about a server; "" for what is not known."""

    product: str
    """Its name and version."""
    used: int
    limit: int
    """Bytes of memory, and the limit; 0: there is none."""
    memory: str
    persistence: str
    eviction: str
    uptime: str
    clients: str
    dangers: list[str]
    """What is unsafe for jobs, and the remedy."""
    problem: str = ""
    """Why nothing is known."""


def server_facts(client: Client, now: float) -> ServerFacts:
    """Ask the server; `problem` says why it may not be asked."""
    try:
        info: Mapping[str, str | int] = client.server_info()
        problem = ""
    except QlessError as error:
        info, problem = {}, str(error)
    used, limit = _whole(info, "used_memory"), _whole(info, "maxmemory")
    return ServerFacts(
        product=_product(info),
        used=used,
        limit=limit,
        memory=_memory(used, limit) if used else "",
        persistence=_persistence(info, now) if "aof_enabled" in info else "",
        eviction=str(info.get("maxmemory_policy", "")),
        uptime=formatting.span(_whole(info, "uptime_in_seconds")) if info else "",
        clients=number(_whole(info, "connected_clients")) if info else "",
        dangers=list(risks_of(client, info)),
        problem=problem,
    )


def _product(info: Mapping[str, str | int]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}" if "redis_version" in info else ""


def _memory(used: int, limit: int) -> str:
    if not limit:
        return _("%s, without a limit") % filesizeformat(used)
    return _("%(used)s of %(limit)s") % {
        "used": filesizeformat(used),
        "limit": filesizeformat(limit),
    }


def _persistence(info: Mapping[str, str | int], now: float) -> str:
    saved = _whole(info, "rdb_last_save_time")
    # The server calls its start a save; since version 7 it counts the real ones.
    if not saved or not info.get("rdb_saves", 1):
        snapshot = _("no snapshot yet")
    else:
        snapshot = _("last snapshot %s ago") % formatting.span(max(0.0, now - saved))
    log = _("append-only file") if info["aof_enabled"] else _("no append-only file")
    return f"{log}; {snapshot}"


def _whole(info: Mapping[str, str | int], name: str) -> int:
    value = info.get(name, 0)
    return value if isinstance(value, int) else 0
