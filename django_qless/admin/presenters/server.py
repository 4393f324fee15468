"""The server of an alias: what it is, what it has room for, what may lose jobs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from django_qless.admin import words
from django_qless.admin.listing import number
from django_qless.core import QlessError
from django_qless.worker.preflight import evicts, forgets

if TYPE_CHECKING:
    from django_qless.core import Client

NEARLY_FULL = 0.9
"""Part of maxmemory from which on a server counts as nearly full."""


@dataclass(frozen=True)
class ServerFacts:
    """What the page shows of a server; "" for what it does not say."""

    product: str
    """Its name and version."""
    engine: str
    """How the core is called there."""
    used: int
    limit: int
    """Bytes of memory, and how many it may take; 0: there is no limit."""
    memory: str
    persistence: str
    eviction: str
    uptime: str
    clients: str
    dangers: list[str]
    """What is unsafe, and what to do about it."""
    problem: str = ""
    """Why nothing is known."""


def server_facts(client: Client, now: float) -> ServerFacts:
    """Ask the server; if its user may not ask, the facts say so."""
    try:
        info: Mapping[str, str | int] = client.server_info()
        problem = ""
    except QlessError as error:
        info, problem = {}, str(error)
    used, limit = _whole(info, "used_memory"), _whole(info, "maxmemory")
    return ServerFacts(
        product=_product(info),
        engine=_engine(client),
        used=used,
        limit=limit,
        memory=_memory(used, limit) if used else "",
        persistence=_persistence(info, now) if "aof_enabled" in info else "",
        eviction=str(info.get("maxmemory_policy", "")),
        uptime=words.span(_whole(info, "uptime_in_seconds")) if info else "",
        clients=number(_whole(info, "connected_clients")) if info else "",
        dangers=list(dangers(info)),
        problem=problem,
    )


def dangers(info: Mapping[str, str | int]) -> Iterator[str]:
    """Say what is unsafe on a server with this INFO, the worst first."""
    if evicts(info):
        yield _(
            "The eviction policy is %s: a full server would throw away jobs. Set "
            "maxmemory-policy to noeviction."
        ) % info.get("maxmemory_policy")
    if forgets(info):
        yield _(
            "There is no append-only file: after a crash the server has lost jobs. Set "
            "appendonly to yes."
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        yield _(
            "The append-only file could not be written: look at the server's disk and "
            "its log."
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield _(
            "The last snapshot failed, and the server may refuse to write: look at its "
            "disk and its log."
        )
    used, limit = _whole(info, "used_memory"), _whole(info, "maxmemory")
    if limit and used > NEARLY_FULL * limit:
        yield _(
            "%(used)s of %(limit)s are used: soon no job can be put. Raise maxmemory, "
            "keep fewer completed jobs (jobs-history), or add workers."
        ) % {"used": filesizeformat(used), "limit": filesizeformat(limit)}
    if info.get("role", "master") != "master":
        yield _("This is a replica: no job can be put. Name its primary in QLESS.")


def _product(info: Mapping[str, str | int]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}" if "redis_version" in info else ""


def _engine(client: Client) -> str:
    if client.script.engine == "script":
        return _("called by scripts, which are slower than functions")
    return _("called by functions")


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
        snapshot = _("last snapshot %s ago") % words.span(max(0.0, now - saved))
    log = _("append-only file") if info["aof_enabled"] else _("no append-only file")
    return f"{log}; {snapshot}"


def _whole(info: Mapping[str, str | int], name: str) -> int:
    value = info.get(name, 0)
    return value if isinstance(value, int) else 0
