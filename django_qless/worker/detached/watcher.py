"""Watching detached runs, in the parent process of a worker.

Each run has one watcher among the workers of its host. It renews the lock on the job with
the heartbeat of the worker, shows the run on the server, and settles it when it has ended.
When a worker ends, the next one adopts its runs, at its start or within a few seconds.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import (
    JobNotFound,
    LockLost,
    QlessError,
    ServerError,
    WrongState,
)
from django_qless.worker import failure_report
from django_qless.worker.crash_reports import CrashReport
from django_qless.worker.detached.settlements import (
    end_in_words,
    held_job,
    settlement_of,
)
from django_qless.worker.detached.starter import fence
from django_qless.worker.log import log_event
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from django_qless.core import Client, Settlement
    from django_qless.worker.detached.records import Run, Runs
    from django_qless.worker.pools.shared_state import HeldJob

# Seconds between two looks for runs that no worker watches, and for queues that are full
# because of other workers' runs.
SCAN = 5.0
SCAN_FULL = 1.0

# Seconds between two reports of a run whose output has changed; and of one whose output
# has not, so that what the server keeps does not expire.
REPORT, REPORT_AGAIN = 2.0, 3600.0

# Seconds until the next try of what the server did not answer.
AFTER_TROUBLE = 0.5

# Seconds between two looks at a run where the kernel does not tell of its end.
POLL = 0.2

# How a run ends whose job is not this worker's any longer, or has no end that the server
# takes.
REFUSED = "refused"


class WatchedRun:
    """A run that this worker watches."""

    def __init__(self, run: Run, lock: int) -> None:
        """`lock` is the descriptor that makes this worker the only watcher."""
        self.run = run
        self.lock = lock
        self.order = run.order
        self.held: HeldJob = held_job(self.order)
        self.queue: str = self.order["job"][1]
        self.length = 0.0
        """Seconds for which a heartbeat renews the lock; 0.0: not adopted yet."""
        self.is_lost = False
        """True if another worker has the job, or none has it any longer."""
        self.ended = False
        """True if the run has ended, which is not settled yet."""
        self.due = 0.0
        """When to tell the server of it again (monotonic)."""
        self.told, self.told_at = "", 0.0
        self.signals: set[signal.Signals] = set()
        """The signals that its parent was sent."""
        self.pidfd = -1

    def open_pidfd(self) -> None:
        """Let the kernel tell of the end of the run's parent, where it can."""
        pid = self.run.parent_pid() if self.pidfd < 0 else 0
        if pid and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.pidfd = os.pidfd_open(pid)

    def stop(self, *, kill: bool = False) -> None:
        """Have the run's parent stop the job, or kill it at once."""
        number = signal.SIGINT if kill else signal.SIGTERM
        if number not in self.signals and self.run.signal(number):
            self.signals.add(number)

    def told_text(self) -> str:
        """Return what the server is told of the run, as JSON."""
        outcome, processes = self.run.outcome, self.run.processes
        told: dict[str, Any] = {
            "host": self.order["host"],
            "pid": processes.get("job", 0),
            "started": self.order["started"],
            "output": self.run.output,
        }
        if self.ended:
            told["ended"] = outcome.get("ended", time.time())
            told["end"] = end_in_words(self.run)
        text = json.dumps(told)
        # A byte that is no text takes six in JSON: the server would not take it all.
        while told["output"] and len(text) > failure_report.MAX_BYTES:
            told["output"] = told["output"][(len(told["output"]) + 1) // 2 :]
            text = json.dumps(told)
        return text

    def close(self) -> None:
        """Give up the run: another worker may watch it."""
        for descriptor in (self.pidfd, self.lock):
            if descriptor >= 0:
                os.close(descriptor)


class DetachedRuns:
    """The detached runs that this worker watches."""

    def __init__(
        self,
        client: Client,
        worker: str,
        runs: Runs,
        limit: Callable[[str], int],
        report_crash: Callable[[CrashReport], None],
    ) -> None:
        """`limit` gives how many of a queue may run at once on this host."""
        self._client = client
        self._worker = worker
        self._runs = runs
        self._limit = limit
        self._report_crash = report_crash
        self._watched: dict[str, WatchedRun] = {}
        self._scan_due = 0.0
        #: Queues of which no more jobs may be started here now.
        self.full: tuple[str, ...] = ()
        #: When there is something to do (monotonic); infinity if nothing.
        self.due = math.inf

    def __len__(self) -> int:
        """Return how many runs are watched."""
        return len(self._watched)

    def __iter__(self) -> Iterator[WatchedRun]:
        return iter(list(self._watched.values()))

    @property
    def tokens(self) -> set[str]:
        """The tokens of the locks on their jobs."""
        return {watched.held.token for watched in self}

    def descriptors(self) -> list[int]:
        """Return the descriptors that become readable when a run ends."""
        return [each.pidfd for each in self if each.pidfd >= 0 and not each.ended]

    # Steps of the worker's parent.

    def scan(self, *, again: bool = False) -> None:
        """Adopt runs that no worker watches, if it is time; see which queues are full."""
        now = time.monotonic()
        if not again and now < self._scan_due:
            return
        for run in self._runs:
            if run.folder.name not in self._watched:
                self._watch(run)
        self.count()

    def count(self) -> None:
        """See which queues are full, by all runs on this host."""
        counts = self._runs.running()
        full = [queue for queue, n in counts.items() if n >= self._limit(queue)]
        self.full = tuple(sorted(full))
        self._scan_due = time.monotonic() + (SCAN_FULL if full else SCAN)

    def look(self) -> None:
        """Look at the runs: tell of them, settle those that have ended."""
        now, ended = time.monotonic(), len(self._watched)
        for watched in self:
            if not watched.ended and not watched.run.is_alive:
                watched.ended, watched.due = True, now
            elif watched.pidfd < 0:
                watched.open_pidfd()
            if watched.ended and now >= watched.due:
                self._settle(watched)
            elif now >= watched.due and not watched.is_lost:
                self._tell(watched)
        if len(self._watched) < ended:
            self.count()
        self.due = min((self._due_of(each) for each in self), default=math.inf)
        if self.full:
            self.due = min(self.due, self._scan_due)

    def stop(self, *, kill: bool) -> None:
        """Stop the jobs of all runs, or kill them at once."""
        for watched in self:
            watched.stop(kill=kill)

    def leave(self) -> None:
        """Give up all runs: they go on, and another worker may watch them."""
        for watched in self:
            self._forget(watched)

    # Locks, with the heartbeat.

    def held_jobs(self) -> list[HeldJob]:
        """Return the jobs whose locks are to be renewed."""
        return [each.held for each in self if each.length and not each.is_lost]

    def lock_lengths(self) -> list[float]:
        """Return the lengths of their locks."""
        return [each.length for each in self if each.length and not each.is_lost]

    def renewed(self, tokens: Collection[str], sent: float) -> None:
        """Tell the runs that these locks were renewed by a call sent then (boottime)."""
        for watched in self:
            if watched.held.token in tokens and watched.length:
                self._renewed(watched, sent)

    def drop(self, tokens: Collection[str]) -> None:
        """Stop the runs of these locks, which are lost."""
        for watched in self:
            if watched.held.token in tokens and not watched.is_lost:
                self._lose(watched)

    # One run.

    def _watch(self, run: Run) -> None:
        lock = run.lock_watch()
        if lock is None:
            return
        if not run.exists or not run.order:
            os.close(lock)
            return
        watched = self._watched[run.folder.name] = WatchedRun(run, lock)
        fields = {"queue": watched.queue, "jid": watched.held.jid}
        log_event(logging.INFO, "detached run watched", **fields)

    def _tell(self, watched: WatchedRun) -> None:
        """Show the run on the server; the first time, it becomes this worker's."""
        text, now = watched.told_text(), time.monotonic()
        if text == watched.told and now < watched.told_at + REPORT_AGAIN:
            watched.due = now + REPORT
            return
        held, sent = watched.held, boottime()
        try:
            watched.length = self._client.keep_detached(
                self._worker, held.jid, held.token, text
            )
        except (LockLost, JobNotFound):
            self._lose(watched)
        except Exception as error:  # noqa: BLE001  tried again
            log_event(logging.DEBUG, "detached run not shown", error=error)
            watched.due = now + AFTER_TROUBLE
        else:
            watched.told, watched.told_at, watched.due = text, now, now + REPORT
            self._renewed(watched, sent)

    def _renewed(self, watched: WatchedRun, sent: float) -> None:
        try:
            watched.run.write_renewed(fence(sent, watched.length))
        except OSError as error:
            # The run ends in time, and the job runs again.
            log_event(
                logging.WARNING,
                "detached run not told of its lock",
                jid=watched.held.jid,
                error=error,
            )

    def _lose(self, watched: WatchedRun) -> None:
        held = watched.held
        log_event(
            logging.WARNING, "detached run stopped: its lock is lost", jid=held.jid
        )
        watched.is_lost = True
        watched.stop()
        lost = CrashReport(held.jid, held.token, "", "The lock was lost.")
        self._report_crash(lost)

    def _settle(self, watched: WatchedRun) -> None:
        """Settle a run that has ended, and remove its record."""
        watched.run.kill_job()
        self._reap(watched)
        settlement, crashed = settlement_of(watched.run, watched.order)
        try:
            if not watched.is_lost:
                self._tell_end(watched)
            how = REFUSED if watched.is_lost else self._send(settlement)
        except Exception as error:  # noqa: BLE001  tried again
            log_event(logging.WARNING, "detached run not settled yet", error=error)
            watched.due = time.monotonic() + AFTER_TROUBLE
            return
        fields = {"queue": watched.queue, "jid": watched.held.jid, "outcome": how}
        log_event(logging.INFO, "detached run ended", **fields)
        if crashed and how == settlement.verb:
            self._announce(settlement)
        watched.run.remove()
        self._forget(watched)

    def _tell_end(self, watched: WatchedRun) -> None:
        held, text = watched.held, watched.told_text()
        try:
            self._client.keep_detached(self._worker, held.jid, held.token, text)
        except ServerError:
            raise
        except QlessError as error:
            # It would be the same next time, and the job is to be settled.
            log_event(logging.DEBUG, "detached run not shown", error=error)

    def _send(self, settlement: Settlement) -> str:
        """Settle; return how, which is a failure if the server refuses the rest."""
        try:
            answer = self._client.settle(self._worker, [settlement], count=0, queues=())
            refusals = [each.error for each in answer.refused]
        except ServerError:
            raise
        except QlessError as error:
            refusals = [error]
        for refusal in refusals:
            log_event(logging.WARNING, "refused", jid=settlement.jid, why=refusal)
            if isinstance(refusal, (LockLost, JobNotFound, WrongState)):
                return REFUSED
            if settlement.args[:1] == (failure_report.REFUSED,):
                return REFUSED
            args = failure_report.refusal(settlement.verb, refusal)
            return self._send(settlement._replace(verb="fail", args=args))
        return settlement.verb

    def _announce(self, settlement: Settlement) -> None:
        delay = float(settlement.args[0]) if settlement.verb == "retry" else 0.0
        group, message = map(str, settlement.args[-2:])
        report = CrashReport(settlement.jid, settlement.token, group, message, delay)
        self._report_crash(report)

    def _reap(self, watched: WatchedRun) -> None:
        """Reap the run's parent where orphans become children of this process."""
        pid = watched.run.processes.get("pid", 0)
        if os.getpid() == 1 and pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _forget(self, watched: WatchedRun) -> None:
        del self._watched[watched.run.folder.name]
        watched.close()

    def _due_of(self, watched: WatchedRun) -> float:
        due = math.inf if watched.is_lost and not watched.ended else watched.due
        if watched.pidfd < 0 and not watched.ended:
            due = min(due, time.monotonic() + POLL)
        return due
