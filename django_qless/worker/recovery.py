"""Recovery from an earlier worker of the same name, which may still run.

Two workers of one name would take each other's jobs for lost ones, so the second refuses
to start. The jobs of a worker that ended unexpectedly stay locked until their locks
expire; with --resume its successor ends these attempts at once. They count as crashes,
whose number is limited, because the worker may have ended due to one of them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from django_qless.core import Reserved, Settlement
from django_qless.core.commands.entities import ENTITY_JID
from django_qless.worker import failure_report
from django_qless.worker.crash_reports import failure_of
from django_qless.worker.deaths import CRASH_LIMIT
from django_qless.worker.locks import MOST
from django_qless.worker.log import log_event
from django_qless.worker.process_info import is_running, start_time
from django_qless.worker.server_checks import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_qless.core import Client, Job
    from django_qless.worker.crash_reports import CrashReport

GONE_AFTER = 1.5 * MOST
"""Seconds without a heartbeat after which a worker on another host counts as gone."""

BATCH = 200
"""Jobs read, and finished, in one call."""

PAYLOADS = 1000
"""Payloads of an entity read in one call."""

LEFT = (
    "The worker {name} ended without finishing the job; its successor has ended "
    "this attempt."
)


def refuse_duplicate(client: Client, name: str, *, resume: bool) -> None:
    """Raise CannotStart if another worker of this name is alive.

    One on another host counts as alive as long as it beats. Without `resume` it is
    accepted: it may have ended a second ago, and its jobs are not touched.
    """
    other = next((known for known in client.workers() if known.name == name), None)
    if other is None or not other.info:
        return
    if other.info.get("host") == socket.gethostname():
        if runs_elsewhere(other.info):
            raise CannotStart(
                f"A worker with the name {name} runs already: process "
                f"{other.info['pid']} on this host. Stop it, or give another --name.",
                os.EX_TEMPFAIL,
            )
    elif resume:
        # By the server's clock.
        silence = max(0.0, float(client.meta()["now"]) - other.beat)
        if silence < GONE_AFTER:
            raise CannotStart(
                f"A worker with the name {name} sent a heartbeat {silence:.0f} s ago, "
                f"on the host {other.info.get('host')}. Stop it, or give another "
                f"--name; if it is gone, begin again in {GONE_AFTER - silence:.0f} s.",
                os.EX_TEMPFAIL,
            )


def runs_elsewhere(info: Mapping[str, object]) -> bool:
    """Return whether the process of this worker info runs, and is another one.

    It must have started at the same time, because ids are reused; and after a restart in
    place it is this very process.
    """
    pid = info.get("pid")
    if not isinstance(pid, int) or pid == os.getpid() or not is_running(pid):
        return False
    return not info.get("born") or info["born"] == start_time(pid)


def resume_jobs(
    client: Client,
    name: str,
    report: Callable[[CrashReport], object] = lambda report: None,
) -> int:
    """End the attempts that a worker of this name still holds; return their number.

    The jobs run again at once, those that have crashed too often fail. Reports each run.
    """
    left = [jid for part in client.worker_jobs(name) for jid in part]
    args = (CRASH_LIMIT, failure_report.WORKER_CRASH, LEFT.format(name=name))
    ended = 0
    for at in range(0, len(left), BATCH):
        jobs = [job for job in client.multiget(left[at : at + BATCH]) if job.token]
        # After they are settled, payloads of entities are in other places.
        runs = [run_of(client, job) for job in jobs]
        crashes = [Settlement(run.jid, run.token, "crash", args) for run in runs]
        answer = client.settle(name, crashes, count=0, queues=())
        # These have been finished meanwhile, or have passed to another worker.
        refused = {refusal.jid for refusal in answer.refused}
        for job, run, crash in zip(jobs, runs, crashes, strict=True):
            if job.jid not in refused:
                ended += 1
                log_event(logging.DEBUG, "job resumed", queue=job.queue, jid=job.jid)
                is_final = job.crashes + 1 > CRASH_LIMIT
                report(failure_of(crash, run, is_final=is_final))
    if left:
        log_event(logging.WARNING, "jobs resumed", jobs=ended)
    return ended


def run_of(client: Client, job: Job) -> Reserved:
    """Return a held job as it was handed out."""
    run = Reserved(
        jid=job.jid,
        queue=job.queue,
        klass=job.klass,
        data=job.data,
        token=job.token,
        retries=job.retries,
        remaining=job.remaining,
        priority=job.priority,
        tags=json.dumps(job.tags),
        context=json.dumps(job.context) if job.context else "",
        expires=job.expires,
    )
    if not job.jid.startswith(ENTITY_JID):
        return run
    try:
        data = json.loads(job.data)
        entity = str(data["entity"])
    except (ValueError, TypeError, KeyError):
        return run  # any job may have such an id
    payloads: list[Any] = []
    while part := client.entity(job.queue, entity, len(payloads), PAYLOADS).running:
        payloads += [payload for _, payload in part]
    return run._replace(data=json.dumps({**data, "payloads": payloads}), batch=1)
