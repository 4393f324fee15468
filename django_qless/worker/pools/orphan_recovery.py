"""Recovery of the jobs that a child held when it ended."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.worker.crash_reports import CrashReport, exhausted_run
from django_qless.worker.heartbeat import held_tokens
from django_qless.worker.log import log_event
from django_qless.worker.pools import outcomes, shared_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from django_qless.core import Client, Settlement
    from django_qless.worker.pools.child_process import ChildProcess

# Seconds until the next try after an error.
AFTER_TROUBLE = 0.5

# Seconds until the next search while a child does not answer: doubled from SOON to
# LATER.
SOON, LATER = 0.02, 1.0

# Jobs settled in one call.
MOST = 200

MOST_CRASH_REPORTS = 100


class OrphanRecovery:
    """Settles the jobs of ended children as soon as the server can be reached."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._unsettled: list[Settlement] = []
        self._searching = False
        # Number of searches so far without a result.
        self._looks = 0
        #: Ended runs that are still to be announced, by the next child.
        self.crash_reports: list[CrashReport] = []
        #: When there is something to do (monotonic); infinity if there is nothing.
        self.due = math.inf

    @property
    def is_done(self) -> bool:
        """True if all jobs of ended children are settled."""
        return self.due == math.inf

    def take_over(self, dead: ChildProcess, apart: Collection[str] = ()) -> None:
        """Decide how to settle each job of a child that has ended.

        Those whose tokens are in `apart` do not end with it.
        """
        held_jobs = dead.shared.held_jobs().without(apart)
        # Finished ones may have been settled: then the server refuses this.
        unharmed = [*held_jobs.finished, *held_jobs.waiting]
        stacks = dead.stacks()
        for running in held_jobs.running:
            jid, token, seconds_held = running.jid, running.token, running.seconds_held
            if dead.killed_outcomes is None:
                pid, status = dead.pid, dead.status or 0
                self._add(
                    outcomes.died(
                        jid, token, pid, status, stacks, seconds_held=seconds_held
                    )
                )
            elif token not in dead.killed_outcomes:
                unharmed.append(running)
            elif settlement := dead.killed_outcomes[token]:
                self._add(settlement)
            else:
                self.report(CrashReport(jid, token, "", "The lock was lost."))
        for held in unharmed:
            self._add(outcomes.released(held.jid, held.token, held.seconds_held))
        if dead.shared.ints[shared_state.CALLS] % 2:
            # It died in a reserving call, perhaps before it saw the reply.
            self._searching = True
            self.due = min(self.due, time.monotonic() + SOON)

    def settle(
        self, children: Iterable[ChildProcess], apart: Collection[str] = ()
    ) -> None:
        """Settle the jobs; on an error, try again later.

        The tokens in `apart` are of jobs that this worker holds and that run elsewhere.
        """
        try:
            if self._searching:
                self._searching = not self._search(list(children), apart)
                self._looks = self._looks + 1 if self._searching else 0
            while self._unsettled:
                self._settle_some()
        except Exception as error:  # noqa: BLE001  tried again
            log_event(
                logging.WARNING, "jobs of a dead child not settled yet", error=error
            )
            self.due = time.monotonic() + AFTER_TROUBLE
        else:
            pause = min(SOON * 2.0 ** min(self._looks, 9), LATER)
            self.due = time.monotonic() + pause if self._searching else math.inf

    def _add(self, settlement: Settlement) -> None:
        self._unsettled.append(settlement)
        self.due = time.monotonic()

    def _settle_some(self) -> None:
        part = self._unsettled[:MOST]
        exhausted = [exhausted_run(self._client, each) for each in part]
        settled = self._client.settle(self._worker, part, count=0, queues=())
        del self._unsettled[: len(part)]
        refused = {refusal.jid for refusal in settled.refused}
        for (jid, token, verb, args, _), run in zip(part, exhausted, strict=True):
            if verb != "release" and jid not in refused:
                delay = float(args[0]) if verb == "retry" else 0.0
                # All of these verbs end with group and message.
                group, message = map(str, args[-2:])
                self.report(CrashReport(jid, token, group, message, delay, run))

    def report(self, report: CrashReport) -> None:
        """Have an ended run announced by the next child."""
        # The next child inherits them with the fork.
        self.crash_reports = [*self.crash_reports, report][-MOST_CRASH_REPORTS:]

    def _search(self, children: Sequence[ChildProcess], apart: Collection[str]) -> bool:
        """Look for jobs that this worker holds and no child knows.

        Returns False if that is uncertain yet: a child in a call may just be given jobs
        that are not in its slots.
        """
        before = [child.shared.ints[shared_state.CALLS] for child in children]
        held = held_tokens(self._client, self._worker)
        calling = [
            child
            for child, calls in zip(children, before, strict=True)
            if calls % 2 and child.shared.ints[shared_state.CALLS] == calls
        ]
        for child in calling:
            # Its call may be a long wait for jobs.
            child.request_attention()
        if calling:
            return False
        known = {*apart, *(settlement.token for settlement in self._unsettled)}
        for child in children:
            known.update(job.token for job in child.shared.held_jobs().all)
        for jid, token in held.items():
            # What fits into no slot may be running.
            if token not in known and shared_state.fits(jid, token):
                self._add(outcomes.released(jid, token))
        return True
