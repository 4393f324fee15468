"""What becomes of the jobs of a child that has ended."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.execution import Obituary
from django_qless.worker.heartbeat import held_by
from django_qless.worker.log import event
from django_qless.worker.pools import board as boards
from django_qless.worker.pools import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_qless.core import Client, Settlement
    from django_qless.worker.pools.process import Process

AFTER_TROUBLE = 0.5
SOON = 0.02
# Seconds between two looks for jobs at most, while a child does not answer.
LATER = 1.0
MOST = 200
MOST_OBITUARIES = 100


class Aftermath:
    """Settles what dead children held, as soon as the server can be reached."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._owed: list[Settlement] = []
        self._searching = False
        # How often it has looked for jobs in vain.
        self._looks = 0
        #: Runs of whose end nobody could be told, for the next child.
        self.obituaries: list[Obituary] = []
        #: When there is something to do (monotonic); infinity if there is nothing.
        self.due = math.inf

    @property
    def is_done(self) -> bool:
        """Whether all that dead children held is settled."""
        return self.due == math.inf

    def take_over(self, dead: Process) -> None:
        """Decide on all jobs of a child that has ended."""
        holdings = dead.board.holdings()
        # Finished ones may not have been settled: if they were, the server refuses.
        released = [*holdings.finished, *holdings.waiting]
        stacks = dead.stacks() if dead.doomed is None else ""
        for running in holdings.running:
            jid, token = running.jid, running.token
            if dead.doomed is None:
                status = dead.status or 0
                death = verdicts.died(
                    *(jid, token, dead.pid, status, stacks), in_hands=running.in_hands
                )
                self._owe(death)
            elif token not in dead.doomed:
                released.append(running)
            elif verdict := dead.doomed[token]:
                self._owe(verdict)
            else:
                self._tell(Obituary(jid, token, "", "The lock was lost."))
        for held in released:
            self._owe(verdicts.release(held.jid, held.token, held.in_hands))
        if dead.board.words[boards.CALLS] % 2:
            # It died while it asked for jobs, and never saw those that it was given.
            self._searching = True
            self.due = min(self.due, time.monotonic() + SOON)

    def settle(self, children: Iterable[Process]) -> None:
        """Settle what is owed; what the server does not hear stays owed."""
        try:
            if self._searching:
                self._searching = not self._search(list(children))
                self._looks = self._looks + 1 if self._searching else 0
            while self._owed:
                self._settle_some()
        except Exception as error:  # noqa: BLE001  it stays owed
            event(logging.WARNING, "jobs of a dead child not settled yet", error=error)
            self.due = time.monotonic() + AFTER_TROUBLE
        else:
            pause = min(SOON * 2.0 ** min(self._looks, 9), LATER)
            self.due = time.monotonic() + pause if self._searching else math.inf

    def _owe(self, verdict: Settlement) -> None:
        self._owed.append(verdict)
        self.due = time.monotonic()

    def _settle_some(self) -> None:
        part = self._owed[:MOST]
        settled = self._client.settle(self._worker, part, count=0, queues=())
        del self._owed[: len(part)]
        refused = {refusal.jid for refusal in settled.refused}
        for jid, token, verb, args, _ in part:
            if verb != "release" and jid not in refused:
                delay = float(args[0]) if verb == "retry" else 0.0
                # All of these verbs end with group and message.
                self._tell(Obituary(jid, token, str(args[-2]), str(args[-1]), delay))

    def _tell(self, obituary: Obituary) -> None:
        # They go by the memory of the next child.
        self.obituaries = [*self.obituaries, obituary][-MOST_OBITUARIES:]

    def _search(self, children: Sequence[Process]) -> bool:
        """Look for jobs that this worker holds and no child knows of.

        Returns False if it cannot be told yet: a child that is in a call just now may be
        given jobs that are not on its board.
        """
        before = [child.board.words[boards.CALLS] for child in children]
        held = held_by(self._client, self._worker)
        calling = [
            child
            for child, calls in zip(children, before, strict=True)
            if calls % 2 and child.board.words[boards.CALLS] == calls
        ]
        for child in calling:
            # It may wait in its call for a job to come.
            child.have_it_look()
        if calling:
            return False
        known = {settlement.token for settlement in self._owed}
        for child in children:
            known.update(job.token for job in child.board.holdings().all)
        for jid, token in held.items():
            # What fits into no slot may be running.
            if token not in known and boards.fits(jid, token):
                self._owe(verdicts.release(jid, token))
        return True
