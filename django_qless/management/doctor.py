"""The checks of `qless_doctor`, one subject after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.core import checks

from django_qless.checks.outbox import outbox_problems
from django_qless.conf.config_sync import operator_overrides
from django_qless.core.exceptions import QlessError, UnsupportedFormat
from django_qless.job_types import discovery
from django_qless.management.output import counted
from django_qless.management.server_findings import (
    HINT,
    NOT_SERVER,
    PROBLEM,
    Finding,
    fine,
    hint,
    if_permitted,
    of_clock,
    of_libraries,
    of_server,
    problem,
)
from django_qless.operations.durations import duration_text
from django_qless.operations.job_query import JobQuery
from django_qless.operations.status import lags_of
from django_qless.operations.workers import ServedQueues, is_alive
from django_qless.outbox.waiting import unclaimed, waiting
from django_qless.schedules.declared import declarations_lost
from django_qless.tasks import known_tasks

if TYPE_CHECKING:
    from django_qless.core import Client


#: Jobs whose names are compared with the registry's.
SAMPLE = 1000

NOT_LIBRARIES = "libraries of functions that other versions have left"


def examine(alias: str, client: Client, *, clean: bool) -> Iterator[Finding]:
    """Yield findings about an alias; an error of its server is the last of them.

    `clean` removes libraries of other versions.
    """
    yield from _settings()
    yield from _outboxes(alias)
    try:
        yield from _namespace(alias, client, clean=clean)
    except UnsupportedFormat as error:
        yield problem("format", str(error))
    except QlessError as error:
        yield problem("server", str(error))


def _namespace(alias: str, client: Client, *, clean: bool) -> Iterator[Finding]:
    stored = client.meta()
    yield fine("format", f"the namespace has format {stored.get('format', 1)}")
    yield from if_permitted(of_server(client), "server", NOT_SERVER)
    yield from of_clock(client)
    yield from if_permitted(
        of_libraries(client, clean=clean), "functions", NOT_LIBRARIES
    )
    yield from _config(alias)
    yield from _declared(alias, client)
    yield from _workers(client)
    yield from _names(alias, client)


def _settings() -> Iterator[Finding]:
    found = [
        message
        for message in checks.run_checks()
        if str(message.id).startswith("django_qless.")
    ]
    for message in found:
        level = PROBLEM if message.level >= checks.ERROR else HINT
        yield Finding(level, "settings", f"{message.msg} {message.hint or ''}".strip())
    if not found:
        yield fine("settings", "the system checks of django_qless pass")


def _outboxes(alias: str) -> Iterator[Finding]:
    for text in outbox_problems(alias):
        yield problem("outbox", text)
    for found in waiting(alias):
        jobs, age = counted(found.jobs, "job"), duration_text(found.oldest)
        if found.error:
            yield hint("outbox", f"database {found.database}: not known: {found.error}")
        elif found.is_late:
            yield problem(
                "outbox",
                f"database {found.database}: {jobs}, the oldest entry for {age}: check that "
                "the server answers, and that a worker of this alias runs",
            )
        elif found.entries:
            yield hint(
                "outbox",
                f"database {found.database}: {jobs}, the oldest entry for {age}",
            )
        else:
            yield fine("outbox", f"database {found.database}: nothing waits")
    for database, name, count in unclaimed():
        yield problem(
            "outbox",
            f"database {database}: {count} waiting for {name!r}, which QLESS does not "
            "have: put it back until they are swept up",
        )


def _config(alias: str) -> Iterator[Finding]:
    for option in sorted(operator_overrides(alias)):
        yield hint(
            "config",
            f"{option} was set by an operator: `qless_config reset {option}` returns to the "
            "settings",
        )


def _declared(alias: str, client: Client) -> Iterator[Finding]:
    lost = declarations_lost(alias)
    if not lost:
        return
    missing = " and none of the ".join(lost)
    if client.workers():
        yield problem(
            "declared",
            f"the server has none of the {missing} that this project declares: it has "
            "lost its data. A worker that runs applies them within a minute",
        )
    else:
        yield hint(
            "declared",
            f"the server has none of the {missing} that this project declares, and has "
            "seen no worker: the first one that starts applies them. If workers have run "
            "before, the server has lost its data",
        )


def _workers(client: Client) -> Iterator[Finding]:
    workers = client.workers()
    now = float(client.meta()["now"])
    alive = [worker for worker in workers if is_alive(worker, now)]
    served = ServedQueues(workers, now)
    for worker in workers:
        if worker not in alive:
            yield hint(
                "workers",
                f"{worker.name} has been silent for {duration_text(now - worker.beat)}"
                + (
                    f" and holds {counted(worker.stalled, 'job')}"
                    if worker.stalled
                    else ""
                ),
            )
    for worker in alive:
        if why := (worker.info or {}).get("detached"):
            yield hint(
                "workers",
                f"detached jobs do not outlive {worker.name}, because {why}: they are "
                "handed back when it is stopped",
            )
    counts = client.queues()
    for queue, lag in zip(counts, lags_of(client, counts), strict=True):
        if queue.paused and queue.waiting:
            yield hint(
                "queues",
                f"{queue.name} is paused, with {counted(queue.waiting, 'job')}",
            )
        elif queue.waiting and not served.serves(queue.name):
            yield problem(
                "queues",
                f"no worker serves {queue.name}, with {counted(queue.waiting, 'job')}, the "
                f"oldest of which has waited for {duration_text(lag)}",
            )
    if alive:
        yield fine("workers", f"workers alive: {len(alive)}")


def _names(alias: str, client: Client) -> Iterator[Finding]:
    for module, error in discovery.import_failures():
        yield problem("jobs", f"{module} cannot be imported: {error!r}")
    page = JobQuery(state="waiting").page(client, count=SAMPLE, scan=SAMPLE)
    names = {job.klass for job in page.jobs}
    for name in sorted(name for name in names if known_tasks.find(name, alias) is None):
        yield problem(
            "jobs",
            f"jobs named {name!r} are waiting, but this project has no such job: it was "
            "renamed (see aliases=), or other code enqueues it",
        )
    groups = client.failed()
    if groups:
        yield hint(
            "failures",
            f"failed: {counted(sum(groups.values()), 'job')} in "
            f"{counted(len(groups), 'group')}",
        )
