"""Findings of `qless_doctor` about a server: version, replicas, clock."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.core.exceptions import NotPermitted, ServerTooOld
from django_qless.core.redis_pool import copy_pool
from django_qless.management.output import counted
from django_qless.operations.durations import duration_text
from django_qless.worker.server_checks import risks_of

if TYPE_CHECKING:
    from django_qless.core import Client


FINE, HINT, PROBLEM = "fine", "hint", "PROBLEM"


#: Seconds by which the clocks of server and client may differ.
MAX_CLOCK_DIFFERENCE = 5.0


NOT_SERVER = "version, memory, eviction and append-only file of the server"


class Finding(NamedTuple):
    """The result of one check."""

    level: str
    about: str
    text: str


fine, hint, problem = (partial(Finding, level) for level in (FINE, HINT, PROBLEM))


def if_permitted(
    findings: Iterator[Finding], about: str, unchecked: str
) -> Iterator[Finding]:
    """Yield the findings, or a hint that the server refuses its user a command."""
    try:
        yield from findings
    except NotPermitted as error:
        yield hint(about, f"not checked: {unchecked}. {error}")


def of_server(client: Client) -> Iterator[Finding]:
    info = client.server_info()
    name = "Valkey" if "valkey_version" in info else "Redis"
    number = info.get("valkey_version") or info.get("redis_version", "?")
    yield fine("server", f"{name} {number}, with {client.script.engine}s")
    if client.script.engine == "script":
        yield hint(
            "server",
            "scripts cost the server more than functions: check ENGINE, and that "
            "the server's user may call FUNCTION and FCALL",
        )
    yield from _replication(client, info)
    for risk in risks_of(client, info):
        yield problem("server", str(risk))
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if used:
        limit = f"of {most:,} " if most else ""
        yield fine("memory", f"{used:,} bytes {limit}are used")


def _replication(client: Client, info: Mapping[str, str | int]) -> Iterator[Finding]:
    """Yield the primary, where others name it, and what its replicas lack."""
    if client.slot_map and client.slot_map.address:
        host, port = client.slot_map.address
        yield fine(
            "cluster",
            f"slot {client.slot_map.slot}, of {client.prefix}, is on {host}:{port} now",
        )
    if client.asks_sentinels:
        pool = copy_pool(client.redis)
        host, port = pool.get_master_address()
        yield fine("sentinel", f"{pool.service_name} is {host}:{port} now")
    end = int(info.get("master_repl_offset", 0))
    for number in range(int(info.get("connected_slaves", 0))):
        text = str(info.get(f"slave{number}", ""))
        known = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        missing = max(0, end - int(known.get("offset", 0)))
        place = f"{known.get('ip')}:{known.get('port')}"
        is_online = known.get("state") == "online"
        yield (fine if is_online else hint)(
            "replicas",
            f"{place} is {known.get('state')}, {missing:,} bytes and "
            f"{known.get('lag')} s behind",
        )
    if client.replication:
        # Raises NotPermitted if the server's user may not wait.
        client.wait_for_replicas(0, 0.001)


def of_clock(client: Client) -> Iterator[Finding]:
    before = time.time()
    meta = client.meta()
    after = time.time()
    there, skews = float(meta["now"]), int(meta.get("skews") or 0)
    off = max(before - there, there - after, 0.0)
    if off > MAX_CLOCK_DIFFERENCE:
        yield hint(
            "clock",
            f"the server's clock and this machine's differ by {duration_text(off)}; jobs "
            "follow the server's",
        )
    if skews:
        yield hint(
            "clock",
            f"the server's clock was set back {counted(skews, 'time')}, or a replica with another "
            f"time took over: check that NTP keeps it. {_correction(meta)}",
        )
    if off <= MAX_CLOCK_DIFFERENCE and not skews:
        yield fine("clock", "the clocks agree")


def _correction(meta: Mapping[str, Any]) -> str:
    """Return how far delays and locks have been set back with the clock."""
    left = json.loads(meta.get("shifts") or "[]")
    if not left:
        return "Delays and locks given before were set back with it"
    queue = left[0].get("queue")
    where = f", now in queue {queue}" if queue else ""
    return f"Delays and locks given before are still being set back{where}: keep a worker running"


def of_libraries(client: Client, *, clean: bool) -> Iterator[Finding]:
    try:
        names = client.libraries()
    except ServerTooOld:
        return
    others = [name for name in names if name != client.script.library.name]
    if clean:
        for name in others:
            client.remove_library(name)
            yield fine("functions", f"removed: {name}")
    elif others:
        yield hint(
            "functions",
            f"the server has function libraries of other versions ({len(others)}): "
            "qless_doctor --clean removes them",
        )
