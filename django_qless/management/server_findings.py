"""Findings of `qless_doctor` about a server: version, replicas, clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core.arguments import MOST_ITEMS
from django_qless.core.exceptions import NotPermitted, ServerTooOld
from django_qless.core.redis_pool import copy_pool
from django_qless.management.output import counted
from django_qless.operations.durations import duration_text
from django_qless.worker.server_checks import risks_of

if TYPE_CHECKING:
    from django_qless.core import Brief, Client, Schedule
    from django_qless.core.listings import Part


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
    yield fine("server", f"{name} {number}")
    yield from _replication(client, info)
    for risk in risks_of(client, info):
        yield problem("server", risk)
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if used and most:
        yield fine("memory", f"{used:,} of {most:,} bytes are used")
    elif used:
        yield hint(
            "memory",
            f"maxmemory is not set, and {used:,} bytes are used: a server that takes all of "
            "its machine's memory is killed. Set maxmemory below that",
        )


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
            "time took over: check that NTP keeps it. Locks, delays and ticks of before last that "
            "much longer",
        )
        yield from _furthest(client, there)
    if off <= MAX_CLOCK_DIFFERENCE and not skews:
        yield fine("clock", "the clocks agree")


def _furthest(client: Client, now: float) -> Iterator[Finding]:
    """Yield the lock, the delayed job and the tick that are furthest ahead."""
    parts: list[Part] = []
    for queue in client.queues():
        if queue.running:
            parts.append(("running", queue.name, queue.running - 1, 1))
        if queue.scheduled:
            parts.append(("scheduled", queue.name, queue.scheduled - 1, 1))
    jobs: list[Brief] = []
    for first in range(0, len(parts), MOST_ITEMS):
        jobs += client.briefs(parts[first : first + MOST_ITEMS])
    locked = max(jobs, key=attrgetter("expires"), default=None)
    if locked and locked.expires > now:
        yield hint(
            "clock",
            f"the furthest lock, of job {locked.jid} in {locked.queue}, ends in "
            f'{duration_text(locked.expires - now)}. If that is too far, "Time out" on its page '
            "hands it to another worker",
        )
    delayed = max(jobs, key=lambda job: job.due or 0, default=None)
    if delayed and delayed.due and delayed.due > now:
        yield hint(
            "clock",
            f"the furthest delayed job, {delayed.jid} in {delayed.queue}, is due in "
            f"{duration_text(delayed.due - now)}. If that is too far, `qless_jobs move "
            f"{delayed.queue} {delayed.jid}` makes it due at once",
        )
    last = max(_schedules(client), key=lambda each: each.next or 0, default=None)
    if last and last.next and last.next > now:
        remedy = (
            f"`qless_recurring reset {last.id}` computes it again"
            if last.owner
            else "remove it, and make it again"
        )
        yield hint(
            "clock",
            f"the furthest next tick, of {last.id}, is in {duration_text(last.next - now)}. If "
            f"that is too far, {remedy}",
        )


def _schedules(client: Client) -> Iterator[Schedule]:
    """Yield all schedules."""
    first, total = 0, 1
    while first < total:
        total, schedules = client.schedule_list(first, MOST_ITEMS)
        yield from schedules
        first += MOST_ITEMS


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
