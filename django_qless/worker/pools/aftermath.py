"""What becomes of the jobs of a child that has ended."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker import failures
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Client
    from django_qless.worker.pools.process import Process

CRASH_LIMIT = 3
"""How many times a job may take its process with it and still be tried again."""

AFTER_TROUBLE = 0.5
SOON = 0.02
MOST = 200


class Aftermath:
    """Settles what dead children held, as soon as the server can be reached."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._owed: list[Settlement] = []
        self._searching = False
        #: When there is something to do; None if there is nothing.
        self.due: float | None = None

    def take_over(self, dead: Process) -> None:
        """Decide on all jobs of a child that has ended."""
        holdings = dead.board.holdings()
        # Finished ones may not have been settled: if they were, the server refuses.
        released = [*holdings.finished, *holdings.waiting]
        for running in holdings.running:
            if dead.doomed is None:
                self._owed.append(crash(running.jid, running.token, dead))
            elif running.token not in dead.doomed:
                released.append(running)
        self._owed.extend(release(held.jid, held.token) for held in released)
        if self._owed:
            self.due = time.monotonic()
        if dead.board.words[boards.CALLS] % 2:
            # It died while it asked for jobs, and never saw those that it was given.
            self._searching = True
            self.due = self.due or time.monotonic() + SOON

    def settle(self, children: Sequence[Process]) -> None:
        """Settle what is owed; what the server does not hear stays owed."""
        try:
            if self._searching and self._search(children):
                self._searching = False
            while self._owed:
                self._client.settle(self._worker, self._owed[:MOST], count=0, queues=())
                del self._owed[:MOST]
        except Exception as error:  # noqa: BLE001  it stays owed
            event(logging.WARNING, "jobs of a dead child not settled yet", error=error)
            self.due = time.monotonic() + AFTER_TROUBLE
        else:
            self.due = time.monotonic() + SOON if self._searching else None

    def _search(self, children: Sequence[Process]) -> bool:
        """Look for jobs that this worker holds and no child knows of.

        Returns False if it cannot be told yet: a child that is in a call just now may be
        given jobs that are not on its board.
        """
        before = [child.board.words[boards.CALLS] for child in children]
        jids = [jid for part in self._client.worker_jobs(self._worker) for jid in part]
        held = {job.jid: job.token for job in self._client.multiget(jids) if job.token}
        for child, calls in zip(children, before, strict=True):
            if calls % 2 and child.board.words[boards.CALLS] == calls:
                return False
        known = {settlement.token for settlement in self._owed}
        for child in children:
            known.update(job.token for job in child.board.holdings().all)
        lost = {jid: token for jid, token in held.items() if token not in known}
        self._owed.extend(release(jid, token) for jid, token in lost.items())
        return True


def crash(jid: str, token: str, dead: Process) -> Settlement:
    """Return the settlement of a job that took its process with it."""
    message = failures.death_of(dead.pid, dead.status or 0)
    event(logging.ERROR, "crashed", jid=jid, why=message)
    args = (CRASH_LIMIT, failures.WORKER_CRASH, message)
    return Settlement(jid, token, "crash", args)


def release(jid: str, token: str) -> Settlement:
    """Return the settlement of a job that is not to blame: back, nothing used up."""
    return Settlement(jid, token, "release", (0,))
