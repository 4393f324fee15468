"""What `qless_doctor` looks at, one subject after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core import checks

from django_qless import discovery
from django_qless.core.exceptions import (
    NotPermitted,
    QlessError,
    ServerTooOld,
    UnsupportedFormat,
)
from django_qless.core.options import known
from django_qless.core.server import (
    AUDIT,
    CLEANING,
    INFO,
    LIBRARIES,
    lacks,
    needed_by_worker,
)
from django_qless.declared import set_by_operators
from django_qless.management.audit import audit
from django_qless.management.words import counted, span
from django_qless.schedules.declared import lost_by_server
from django_qless.selection import Selection
from django_qless.tasks import catalogue
from django_qless.worker.preflight import warnings
from django_qless.worker.serving import Coverage, is_alive

if TYPE_CHECKING:
    from django_qless.core import Client

FINE, HINT, PROBLEM = "fine", "hint", "PROBLEM"

#: Seconds by which the clocks of server and client may differ without a word.
CLOCKS = 5.0

#: Jobs whose names are compared with the registry's.
SAMPLE = 1000

#: Seconds for which it is told that results were dropped before their time.
RECENTLY = 86400

NOT_SERVER = "version, memory, eviction and append-only file of the server"
NOT_LIBRARIES = "libraries of functions that other versions have left"
NOT_RECORDS = "the records"

#: Part of maxmemory from which on the server counts as nearly full.
NEARLY_FULL = 0.9


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: str
    about: str
    text: str


def examine(
    alias: str, client: Client, *, audited: bool = True, cleans: bool = False
) -> Iterator[Finding]:
    """Yield what there is to say of an alias. That its server cannot be asked is one
    finding; what was found before stays.

    `audited` has the records checked; `cleans` removes libraries of other versions.
    """
    yield from _settings()
    try:
        yield from _namespace(alias, client, audited=audited, cleans=cleans)
    except UnsupportedFormat as error:
        yield Finding(PROBLEM, "format", str(error))
    except QlessError as error:
        yield Finding(PROBLEM, "server", str(error))


def _namespace(
    alias: str, client: Client, *, audited: bool, cleans: bool
) -> Iterator[Finding]:
    stored = client.meta()
    yield Finding(FINE, "format", f"the namespace has format {stored.get('format', 1)}")
    missing = client.missing_permissions()
    yield from _permissions(missing)
    yield from _if_permitted(_server(client), missing, INFO, "server", NOT_SERVER)
    yield from _clock(client)
    yield from _if_permitted(
        _libraries(client, cleans=cleans),
        missing,
        CLEANING if cleans else LIBRARIES,
        "functions",
        NOT_LIBRARIES,
    )
    yield from _config(alias)
    yield from _declared(alias)
    yield from _results(client)
    yield from _workers(client)
    yield from _names(alias, client)
    if audited:
        yield from _if_permitted(
            _records(client), missing, AUDIT, "records", NOT_RECORDS
        )


def _permissions(missing: Sequence[str] | None) -> Iterator[Finding]:
    if missing is None:
        yield Finding(
            HINT,
            "permissions",
            "not checked: servers before Redis 7 do not tell what their user may do",
        )
        return
    needed = needed_by_worker(missing)
    if needed:
        yield Finding(PROBLEM, "permissions", str(NotPermitted(lacks(needed))))
    else:
        yield Finding(FINE, "permissions", "the server's user has what a worker needs")


def _if_permitted(
    findings: Iterator[Finding],
    missing: Collection[str] | None,
    needed: Collection[str],
    about: str,
    unchecked: str,
) -> Iterator[Finding]:
    """Yield what a look finds, or that the user is not permitted to have it.

    What is known to be refused is not tried: servers log that.
    """
    refused = sorted({*(missing or ())} & {*needed})
    try:
        if refused:
            raise NotPermitted(lacks(refused))
        yield from findings
    except NotPermitted as error:
        yield Finding(HINT, about, f"not checked: {unchecked}. {error}")


def _settings() -> Iterator[Finding]:
    found = [
        message
        for message in checks.run_checks(include_deployment_checks=False)
        if str(message.id).startswith("django_qless.")
    ]
    for message in found:
        level = PROBLEM if message.level >= checks.ERROR else HINT
        yield Finding(level, "settings", f"{message.msg} {message.hint or ''}".strip())
    if not found:
        yield Finding(FINE, "settings", "the system checks of django_qless pass")


def _server(client: Client) -> Iterator[Finding]:
    info = client.server_info()
    name = "Valkey" if "valkey_version" in info else "Redis"
    number = info.get("valkey_version") or info.get("redis_version", "?")
    yield Finding(FINE, "server", f"{name} {number}, called by {client.script.engine}s")
    if client.script.engine == "script":
        yield Finding(
            HINT,
            "server",
            "scripts are several times slower than functions: see ENGINE, and whether "
            "the server's user may FUNCTION and FCALL",
        )
    for words in warnings(info):
        yield Finding(PROBLEM, "server", words)
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if most and used > NEARLY_FULL * most:
        yield Finding(
            PROBLEM,
            "memory",
            f"{used:,} of {most:,} bytes are used: soon no job can be put. Raise "
            "maxmemory, keep fewer completed jobs (jobs-history), or add workers",
        )
    elif used:
        limit = f"of {most:,} " if most else ""
        yield Finding(FINE, "memory", f"{used:,} bytes {limit}are used")


def _clock(client: Client) -> Iterator[Finding]:
    before = time.time()
    meta = client.meta()
    after = time.time()
    there, skews = float(meta["now"]), int(meta.get("skews") or 0)
    off = max(before - there, there - after, 0.0)
    if off > CLOCKS:
        yield Finding(
            HINT,
            "clock",
            f"the server's clock and this machine's differ by {span(off)}; the "
            "server's decides",
        )
    if skews:
        yield Finding(
            HINT,
            "clock",
            f"the server's clock was set back {skews} times, or a replica with another "
            f"time took over: see whether it is kept by NTP. {_mending(meta)}",
        )
    if off <= CLOCKS and not skews:
        yield Finding(FINE, "clock", "the clocks agree")


def _mending(meta: Mapping[str, Any]) -> str:
    """Say how far what was timed before has been set back as well."""
    left = json.loads(meta.get("shifts") or "[]")
    if not left:
        return "Delays and locks given before were set back with it"
    queue = left[0].get("queue")
    where = f" and has come to queue {queue}" if queue else ""
    return f"Setting back the delays and locks given before goes on{where}: let a worker run"


def _libraries(client: Client, *, cleans: bool) -> Iterator[Finding]:
    try:
        names = client.libraries()
    except ServerTooOld:
        return
    others = [name for name in names if name != client.script.library.name]
    if cleans:
        for name in others:
            client.remove_library(name)
            yield Finding(FINE, "functions", f"removed: {name}")
    elif others:
        yield Finding(
            HINT,
            "functions",
            f"on the server are libraries of other versions ({len(others)}): "
            "qless_doctor --clean removes them",
        )


def _config(alias: str) -> Iterator[Finding]:
    for option in sorted(set_by_operators(alias)):
        yield Finding(
            HINT,
            "config",
            f"{option} was set by hand: `qless_config reset {option}` returns to what "
            "the settings say",
        )


def _declared(alias: str) -> Iterator[Finding]:
    lost = lost_by_server(alias)
    if lost:
        yield Finding(
            PROBLEM,
            "declared",
            f"the server has none of the {' and none of the '.join(lost)} that this "
            "project declares: it has lost its data, or no worker has run yet. A worker "
            "that runs applies them within a minute, one that starts at once",
        )


def _results(client: Client) -> Iterator[Finding]:
    kept = client.results_kept()
    now = float(client.meta()["now"])

    def ago(moment: float) -> float:
        return max(0.0, round(now - moment, 3))

    if kept.cut is not None and now - kept.cut < RECENTLY:
        options = {name: known(name) for name in ("results-count", "results-bytes")}
        limits = (
            f"{name} ({client.config_get(name) or (option and option.default)})"
            for name, option in options.items()
        )
        yield Finding(
            HINT,
            "results",
            f"results are dropped before their result_ttl, last {span(ago(kept.cut))} "
            f"ago: raise {' or '.join(limits)}, or return less",
        )
    if kept.number:
        yield Finding(
            FINE,
            "results",
            f"{counted(kept.number, 'result')} kept, {kept.bytes:,} bytes, the oldest for "
            f"{span(ago(kept.oldest or now))}",
        )


def _workers(client: Client) -> Iterator[Finding]:
    workers = client.workers()
    now = float(client.meta()["now"])
    alive = [worker for worker in workers if is_alive(worker, now)]
    coverage = Coverage(workers, now)
    for worker in workers:
        if worker not in alive:
            yield Finding(
                HINT,
                "workers",
                f"{worker.name} has been silent for {span(now - worker.beat)}"
                + (
                    f" and holds {counted(worker.stalled, 'job')}"
                    if worker.stalled
                    else ""
                ),
            )
    counts = client.queues()
    lags = client.lag([queue.name for queue in counts]) if counts else []
    for queue, lag in zip(counts, lags, strict=True):
        if queue.paused and queue.waiting:
            yield Finding(
                HINT,
                "queues",
                f"{queue.name} is paused, with {counted(queue.waiting, 'job')}",
            )
        elif queue.waiting and not coverage.serves(queue.name):
            yield Finding(
                PROBLEM,
                "queues",
                f"no worker serves {queue.name}, with {counted(queue.waiting, 'job')}, the "
                f"oldest of which has waited for {span(lag)}",
            )
    if alive:
        yield Finding(FINE, "workers", f"workers alive: {len(alive)}")


def _names(alias: str, client: Client) -> Iterator[Finding]:
    for module, error in discovery.failures():
        yield Finding(PROBLEM, "jobs", f"{module} cannot be imported: {error!r}")
    page = Selection(state="waiting").page(client, count=SAMPLE, scan=SAMPLE)
    names = {job.klass for job in page.jobs}
    for name in sorted(name for name in names if catalogue.find(name, alias) is None):
        yield Finding(
            PROBLEM,
            "jobs",
            f"jobs called {name!r} wait, and this project has none of that name: it was "
            "renamed (see aliases=), or other code puts it",
        )
    groups = client.failed()
    if groups:
        yield Finding(
            HINT,
            "failures",
            f"failed: {counted(sum(groups.values()), 'job')} in "
            f"{counted(len(groups), 'group')}",
        )


def _records(client: Client) -> Iterator[Finding]:
    found = audit(client)
    for words in found.violations:
        yield Finding(PROBLEM, "records", words)
    if not found.violations:
        yield Finding(
            FINE,
            "records",
            f"{counted(found.checked, 'record')} checked: all is as it must be",
        )
