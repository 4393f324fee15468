"""The locks on held jobs: their term in a child, their renewal by the parent.

A process that is suspended, or whose machine is, does not notice it: when it resumes,
another worker may have its jobs. So a child checks the lock right before each job
starts. Times are those of a clock that goes on meanwhile (boottime); server times are
only compared with each other.
"""

from __future__ import annotations

import itertools
import logging
import time
from typing import TYPE_CHECKING

from django_qless.worker.log import log_event
from django_qless.worker.pools import shared_state
from django_qless.worker.process_info import boottime

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from django_qless.core import Settled
    from django_qless.worker.detached.watcher import DetachedRuns
    from django_qless.worker.heartbeat import Heartbeat
    from django_qless.worker.pools.process_manager import ProcessManager
    from django_qless.worker.pools.shared_state import HeldJob, SharedState


class LockTerm:
    """The time for which the locks hold that came with one reply."""

    __slots__ = ("length", "shown", "until")

    def __init__(
        self,
        until: float = float("inf"),
        length: float = 0.0,
        shown: float = float("inf"),
    ) -> None:
        """They hold until then, and for `length` seconds after each heartbeat."""
        self.until = until
        self.length = length
        #: Since when the parent sees the jobs in the shared state and renews their
        #: locks.
        self.shown = shown

    @property
    def values(self) -> tuple[float, float, float]:
        """The arguments for an equal term in another process."""
        return self.until, self.length, self.shown

    def holds(self, shared: SharedState) -> bool:
        """Return whether the locks hold now, as far as this process knows."""
        now = boottime()
        if now < self.until:
            return True
        renewed = shared.floats[shared_state.LOCKS_RENEWED]
        return self.shown <= renewed and now < renewed + self.length


class ServerClock:
    """Translates server times into earliest times of this machine's clock."""

    def __init__(self) -> None:
        self._difference = float("-inf")

    def term(self, settled: Settled, sent: float, *, waited: bool) -> LockTerm:
        """Return for how long the locks hold that came with this reply.

        The request was `sent` then. If it waited at the server, the call before it
        tells more exactly when it was executed.
        """
        executed = sent
        if waited:
            executed = max(sent, min(settled.now + self._difference, boottime()))
        else:
            self._difference = sent - settled.now
        expires = min((job.expires for job in settled.jobs), default=settled.now)
        length = expires - settled.now
        return LockTerm(executed + length, length)


class LockRenewal:
    """Renews the locks of all children's jobs in one call, and drops lost jobs.

    As often as the shortest of the locks needs it.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        children: ProcessManager,
        detached: DetachedRuns | None = None,
    ) -> None:
        self.heartbeat = heartbeat
        self.children = children
        self.detached = detached
        # The prefetches at the last heartbeat: process id and number of each.
        self._pending: set[tuple[int, int]] = set()

    def beat(self) -> Sequence[str]:
        """Renew the locks, if it is time; return control commands from the server."""
        if time.monotonic() < self.heartbeat.due:
            return ()
        newest: dict[str, HeldJob] = {}
        sent = boottime()
        # A child that is not working has no right to its locks.
        locked = {
            child: child.shared.held_jobs().locked
            for child in self.children
            if child.is_working
        }
        apart = self.detached.held_jobs() if self.detached else ()
        for held in itertools.chain(*locked.values(), apart):
            known = newest.setdefault(held.jid, held)
            if int(held.token) > int(known.token):
                newest[held.jid] = held
        beaten = [(held.jid, held.token, held.seconds_held) for held in newest.values()]
        answer = self.heartbeat.beat([*beaten, *self.prefetched()])
        if answer.lost:
            lost = [newest.pop(jid).token for jid in answer.lost if jid in newest]
            self.drop_lost_jobs(set(lost))
        if not self.heartbeat.is_failing:
            for child, jobs in locked.items():
                if all(held is newest.get(held.jid) for held in jobs):
                    child.shared.floats[shared_state.LOCKS_RENEWED] = sent
            if self.detached and apart:
                kept = {held.token for held in newest.values()}
                self.detached.drop({held.token for held in apart} - kept)
                self.detached.renewed(kept, sent)
        self.heartbeat.set_interval(self.lock_lengths())
        # A child that was given a short lock meanwhile has seen the old interval.
        self.hurry()
        return answer.orders

    def prefetched(self) -> Iterator[tuple[str, str, None]]:
        """Return jobs that a child has prefetched without reading the reply yet.

        A job that holds the interpreter (C code, for example) keeps its child from
        reading it, perhaps for longer than a lock lasts.
        """
        before = self._pending
        self._pending = {
            (child.pid, pending)
            for child in self.children
            if (pending := child.shared.ints[shared_state.PENDING_CALL])
            and child.is_working
        }
        if not before & self._pending:
            return
        known = {
            held.token
            for child in self.children
            for held in child.shared.held_jobs().all
        }
        known |= self.detached.tokens if self.detached else set()
        for jid, token in self.heartbeat.held().items():
            if token not in known:
                yield jid, token, None

    def hurry(self) -> None:
        """Beat more often if a short lock needs it, and publish the interval."""
        for length in self.lock_lengths():
            self.heartbeat.shorten_interval(length)
        for child in self.children:
            child.shared.floats[shared_state.HEARTBEAT_INTERVAL] = (
                self.heartbeat.interval
            )

    def lock_lengths(self) -> list[float]:
        """Return the length of the shortest lock of each child, and of detached runs."""
        apart = self.detached.lock_lengths() if self.detached else []
        return apart + [
            child.shared.floats[shared_state.LOCK_SECONDS]
            for child in self.children
            if child.shared.held_jobs().locked
        ]

    def drop_lost_jobs(self, tokens: Collection[str]) -> None:
        """Stop the work on jobs whose locks are lost."""
        for child in self.children:
            jobs = child.shared.held_jobs()
            lost = {held.token for held in jobs.locked if held.token in tokens}
            running = [held for held in jobs.running if held.token in lost]
            if running and self.children.pool.one_job_each:
                jid = running[0].jid
                if self.heartbeat.is_canceled(jid):
                    level, event = logging.INFO, "job canceled, killing"
                else:
                    level, event = logging.WARNING, "lock lost, killing"
                log_event(level, event, jid=jid, pid=child.pid)
                child.kill(dict.fromkeys(lost))
            elif lost:
                child.drop(lost)
