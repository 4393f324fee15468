"""What an earlier worker of the same name has left: perhaps jobs, perhaps itself.

Two workers of one name would take each other's jobs for lost ones, so the second refuses
to begin. The jobs of one that ended without a word are its own until their locks expire;
with --resume its successor ends these attempts at once. They count as crashes, whose
number is limited, since the worker may have ended because of one of them.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker import failures
from django_qless.worker.alive import birth, is_alive
from django_qless.worker.heartbeat import LONGEST_PACE
from django_qless.worker.log import event
from django_qless.worker.pools.verdicts import CRASH_LIMIT
from django_qless.worker.preflight import CannotWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django_qless.core import Client
    from django_qless.core.commands.operations import WorkerCounts

SILENCE = 1.5 * LONGEST_PACE
"""Seconds without a heartbeat after which a worker on another host is taken for gone."""

MOST = 200
"""Jobs looked at, and settled, in one call."""

LEFT = "The worker {name} ended without settling it; its successor has taken it up."


def whereabouts() -> dict[str, object]:
    """Return what names this process for ever: its host, its id, and when it began."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "born": birth(pid)}


def refuse_twin(client: Client, name: str, *, resume: bool) -> None:
    """Raise CannotWork if another worker of this name lives.

    That of another host is believed to live as long as it beats. Without `resume` it is
    let be: it may have ended a second ago, and nothing of it is touched.
    """
    twin = next((known for known in client.workers() if known.name == name), None)
    if twin is None or not twin.info:
        return
    if twin.info.get("host") == socket.gethostname():
        if is_running_elsewhere(twin.info):
            raise CannotWork(
                f"A worker with the name {name} runs already: process "
                f"{twin.info['pid']} on this host. Stop it, or give another --name.",
                os.EX_TEMPFAIL,
            )
    elif resume and (silent := silence(client, twin)) < SILENCE:
        raise CannotWork(
            f"A worker with the name {name} gave a sign of life {silent:.0f} s ago, on "
            f"the host {twin.info.get('host')}. Stop it, or give another --name; if it "
            f"is gone, begin again in {SILENCE - silent:.0f} s.",
            os.EX_TEMPFAIL,
        )


def is_running_elsewhere(info: Mapping[str, object]) -> bool:
    """Return whether the process that says this of itself runs, and is another one.

    It must have begun at the same time, for ids are given again; and after a new
    execution it is this very process.
    """
    pid = info.get("pid")
    if not isinstance(pid, int) or pid == os.getpid() or not is_alive(pid):
        return False
    return not info.get("born") or info["born"] == birth(pid)


def silence(client: Client, worker: WorkerCounts) -> float:
    """Return the seconds since a worker's last heartbeat, by the server's clock."""
    return max(0.0, float(client.meta()["now"]) - worker.beat)


def take_up(client: Client, name: str) -> int:
    """End the attempts that a worker of this name still holds; return their number.

    The jobs run again at once, those that have crashed too often fail.
    """
    left = [jid for part in client.worker_jobs(name) for jid in part]
    taken = 0
    for at in range(0, len(left), MOST):
        settlements = list(crashes(client, name, left[at : at + MOST]))
        # What is refused has been settled meanwhile, or has passed to another worker.
        answer = client.settle(name, settlements, count=0, queues=())
        taken += len(settlements) - len(answer.refused)
    if left:
        event(logging.WARNING, "took up what was left", jobs=taken)
    return taken


def crashes(client: Client, name: str, jids: list[str]) -> Iterator[Settlement]:
    """Return the settlements of these jobs, as far as they are held with a token."""
    args = (CRASH_LIMIT, failures.WORKER_CRASH, LEFT.format(name=name))
    for job in client.multiget(jids):
        if job.token:
            event(logging.DEBUG, "taken up", queue=job.queue, jid=job.jid)
            yield Settlement(job.jid, job.token, "crash", args)
