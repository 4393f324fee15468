"""Telling of runs that could not tell it themselves: by another process, afterwards.

Their process was killed, or their last lock was lost and the server has failed the job.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.core import Reserved
from django_qless.core.commands.entities import ENTITY_JID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Client, Exhausted, Job, Settlement
    from django_qless.worker.execution import Execution

logger = logging.getLogger("django_qless.worker")

# What may be a run's last failure.
FAILURES = ("crash", "fail", "retry")

# Payloads asked for in one call.
PAYLOADS = 1000


class CrashReport(NamedTuple):
    """A run whose process was killed, or is lost, as another process knows it."""

    jid: str
    token: str
    group: str
    """The failure group of its outcome; "" if another worker took the job."""
    message: str
    delay: float = 0.0
    """Seconds before the next attempt, if there is one."""
    exhausted: Reserved | None = None
    """The run, if it was the last one of its job or entity, with the payloads of that."""
    run: Reserved | None = None
    """The run, where it is known."""
    event: str = ""
    """What has become of the job, where it is known: failed, retried, or lost."""


def exhausted_run(client: Client, settlement: Settlement) -> Reserved | None:
    """Return the run of an entity whose retries this settlement will use up, else None.

    To be asked before it is settled: later the payloads are in other places, and the job
    may be gone.
    """
    if settlement.verb not in FAILURES or not settlement.jid.startswith(ENTITY_JID):
        return None
    job = client.get(settlement.jid)
    if job is None or job.token != settlement.token or not uses_up(settlement, job):
        return None
    try:
        data = json.loads(job.data)
        entity = str(data["entity"])
    except (ValueError, TypeError, KeyError):
        return None  # any job may have such an id
    payloads: list[Any] = []
    while part := client.entity(job.queue, entity, len(payloads), PAYLOADS).running:
        payloads += [payload for _, payload in part]
    run = as_reserved(job, settlement.token, json.dumps({**data, "payloads": payloads}))
    return run._replace(batch=1)


def lost_for_good(lost: Exhausted) -> CrashReport:
    """Return the report of a run whose loss has failed its job."""
    jid, token = lost.job.jid, lost.job.token
    return CrashReport(jid, token, lost.group, lost.message, exhausted=lost.job)


def lost_to_another(run: Reserved) -> CrashReport:
    """Return the report of a run whose job another worker has."""
    return CrashReport(run.jid, run.token, "", "The lock was lost.", run=run)


def uses_up(settlement: Settlement, job: Job) -> bool:
    """Return whether a settlement is a failure after which the job is not tried again."""
    if settlement.verb == "crash":
        return job.crashes + 1 > int(settlement.args[0])
    return settlement.verb == "fail" or (
        settlement.verb == "retry" and job.remaining < 1
    )


def was_moved_by(report: CrashReport, job: Job) -> bool:
    """Return whether the job failed for good by this, and waits in its `failed_queue`.

    There it has all of its retries again, and keeps its failure.
    """
    failure = job.failure
    return (
        job.failed_from is not None
        and failure is not None
        and (failure.group, failure.message) == (report.group, report.message)
        and (job.remaining, job.crashes) == (job.retries, 0)
    )


def as_reserved(job: Job, token: str, data: str) -> Reserved:
    """Return a job as it was handed out with this token."""
    return Reserved(
        jid=job.jid,
        queue=job.queue,
        klass=job.klass,
        data=data,
        token=token,
        retries=job.retries,
        remaining=job.remaining,
        priority=job.priority,
        tags=json.dumps(job.tags),
        context=json.dumps(job.context) if job.context else "",
        expires=job.expires,
    )


def taken(reports: list[CrashReport]) -> list[CrashReport]:
    """Take what is in the list now; a thread may be adding more."""
    return [reports.pop(0) for _ in range(len(reports))]


def announce_crashes(execution: Execution, reports: Sequence[CrashReport]) -> None:
    """Announce the outcomes of runs that could not announce them.

    In a child, never in the parent, because it calls receivers of the project. It asks
    the server for the jobs, but only if there are receivers. Raises nothing.
    """
    for report in reports:
        announce_crash(execution, report)
    # The entities of one run have died together.
    runs: dict[tuple[str, str], list[Reserved]] = {}
    for report in reports:
        if report.exhausted and report.exhausted.batch:
            key = (report.exhausted.klass, report.message)
            runs.setdefault(key, []).append(report.exhausted)
    for (klass, message), jobs in runs.items():
        batch = {}
        for job in jobs:
            data = json.loads(job.data)
            batch[data["entity"]] = data["payloads"]
        errors = dict.fromkeys(batch, message)
        execution.environment.announce_exhausted(klass, batch, errors)


def announce_crash(execution: Execution, report: CrashReport) -> None:
    """Announce the outcome of one job, if there are receivers. Raises nothing."""
    has_listeners = execution.environment.has_listeners
    events = ("failed", "retried") if report.group else ("lost",)
    if not any(map(has_listeners, events)):
        return
    event, reserved = events[0], report.exhausted
    if report.event:
        event, reserved = report.event, report.run
    if reserved is None:
        try:
            job = execution.client.get(report.jid)
            if job is None or job.canceled:
                return
            event = events[-1] if job.state != "failed" else events[0]
            reserved = report.run or as_reserved(job, report.token, job.data)
            if event == "retried" and was_moved_by(report, job):
                event = "failed"
                reserved = reserved._replace(queue=str(job.failed_from))
        except Exception:
            logger.exception("the outcome of job %s is not announced", report.jid)
            return
    if not has_listeners(event):
        return
    details: dict[str, object] = {}
    if event != "lost":
        details |= {"exception": None, "group": report.group}
        details["message"] = report.message
    if event == "retried":
        details["delay"] = report.delay
    execution.environment.announce(event, execution.shown(reserved), **details)
