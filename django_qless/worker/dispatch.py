"""Which child runs which job, how many jobs are held ahead, and how many children there are.

Short jobs travel together: one message has many of them if they are known to be short. Jobs
are held ahead only as far as this worker ends them within a moment. What has waited longer
goes to another child or back to its queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.worker.log import log_event, log_expired_lock
from django_qless.worker.process_info import boottime
from django_qless.worker.shutdown import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.worker.child import Done
    from django_qless.worker.children import ChildProcess, Held
    from django_qless.worker.hub import Hub
    from django_qless.worker.source import Source

#: Held ahead are the jobs that this worker ends within AHEAD seconds at its present rate;
#: none for a while after some had to be handed back.
AHEAD, NOTHING_AHEAD = 0.010, 1.0

#: The most jobs held ahead.
MOST_AHEAD = 250

#: Others are reserved when half of them are gone; or later, as long as there are as many as
#: end during CALLS calls.
CALLS = 3

#: The rate is that of RATE_JOBS jobs, or of RATE_SECONDS: fewer jobs say little.
RATE_JOBS, RATE_SECONDS = 20, 0.1

#: Seconds for which a job may wait for a child, or in a child for its start.
MOST_WAIT = 0.030

#: Seconds from the request not to begin jobs until it is certain that they are not begun.
CERTAIN = 0.005

#: Jobs that take less, in seconds, are sent several in one message: as many as take BATCH
#: seconds together, and at most MOST_BATCH, or BATCH_BYTES of data.
SHORT, BATCH, MOST_BATCH, BATCH_BYTES = 0.001, 0.002, 50, 256 * 1024

#: The weight of the last measurement in a mean.
WEIGHT = 0.2

#: Job types whose mean duration is remembered.
MOST_TYPES = 10_000

#: Suspected jobs run apart, each in a process of its own, at most ISOLATED at a time; and
#: for ISOLATION seconds at most: they may run elsewhere, or never.
ISOLATED, ISOLATION = 4, 30.0


class Dispatch:
    """Gives the held jobs of a worker to its children."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.pool = hub.pool
        self.options = hub.options
        #: Set when there may be too few or too many children.
        self.changed = asyncio.Event()
        #: Set when a helper is to be started.
        self.helper_wanted = False
        # The mean seconds of short jobs by type; None: they are to be sent alone.
        self._means: dict[tuple[str, str], float | None] = {}
        # Jobs ended per second.
        self._rate = 0.0
        self._counted, self._counted_since = 0, time.monotonic()
        self._nothing_ahead_until = 0.0
        self._waiting = asyncio.Event()
        # Jobs that may have killed a process, by jid, and until when they run apart.
        self._suspects: dict[str, float] = {}
        self._apart: list[Held] = []

    # How many jobs to reserve.

    @property
    def job_children(self) -> list[ChildProcess]:
        """The children that run jobs."""
        return [child for child in self.hub.children if child.kind == "job"]

    @property
    def free(self) -> int:
        """Number of jobs that could begin now."""
        children = self.job_children
        room = sum(child.room for child in children if not child.is_apart)
        busy = sum(child.busy for child in children)
        return min(room, self.options.concurrency - busy)

    def ahead(self, source: Source) -> int:
        """Return how many jobs to hold ahead of those that run.

        Others end while a source reserves them.
        """
        if self.pool.one_job_only or time.monotonic() < self._nothing_ahead_until:
            return 0
        return min(MOST_AHEAD, int(self._rate * (AHEAD + source.latency)))

    def room(self, source: Source) -> int:
        """Return how many jobs a source is to reserve now."""
        if not self.hub.shutdown.takes_jobs:
            return 0
        free, ahead = self.free, self.ahead(source)
        sources = self.hub.sources
        ready = sum(len(each.ready) for each in sources)
        asked = sum(each.claimed for each in sources if each is not source)
        wanted = free + ahead - ready - asked
        spare = ahead - CALLS * self._rate * source.latency
        if free <= ready + asked and wanted < max(ahead / 2, spare):
            # Not one by one, while there are enough.
            return 0
        if rivals := [each for each in source.others if each.may_reserve]:
            wanted = self._share(source, rivals, free + ahead, wanted)
        return max(0, min(wanted, source.most))

    def _share(
        self, source: Source, rivals: list[Source], places: int, wanted: int
    ) -> int:
        """Return how many of the wanted jobs a source may reserve beside others.

        They share the places, and take turns where there are too few.
        """
        share = math.ceil(places / (1 + len(rivals))) - len(source.ready)
        is_behind = any(each.reserved_at < source.reserved_at for each in rivals)
        if share > 0 and not (is_behind and wanted <= len(rivals)):
            return min(share, wanted)
        if wanted > 0:
            for each in rivals:
                each.changed.set()
        return 0

    # Giving jobs to children.

    def give(self) -> None:
        """Give the jobs that are ready to children with room, unless none may be begun."""
        if not self.hub.shutdown.takes_jobs:
            self.hand_back()
            return
        if any(source.ready for source in self.hub.sources):
            for child in self.job_children:
                while child.room and not child.is_apart and self.free > 0:
                    if not self._give(child):
                        break
        if any(source.ready for source in self.hub.sources):
            self._waiting.set()

    def _give(self, child: ChildProcess) -> bool:
        """Give a child its next jobs; return False if there are none."""
        sources = self.hub.sources
        for _ in range(len(sources)):
            source = sources[0]
            runs = self._take(source, child)
            sources.append(sources.pop(0))
            if runs:
                self._send(child, source, runs)
                return True
        return False

    def _send(
        self, child: ChildProcess, source: Source, runs: list[list[Held]]
    ) -> None:
        child.give(source.alias, runs)
        if child.may_keep_waiting:
            self._waiting.set()
        if self.pool.one_job_only or child.is_apart:
            child.is_leaving = True
            self.changed.set()

    def _take(self, source: Source, child: ChildProcess) -> list[list[Held]]:
        """Remove and return the jobs of a source that a child is to run next, by run."""
        now = boottime()
        runs: list[list[Held]] = []
        one_each, size = self.pool.one_job_each, 0
        most = MOST_BATCH if one_each else min(child.room, self.free)
        while held := self._head(source, now):
            if one_each:
                most = min(most, self._most_runs(held))
            size += len(held.job.data)
            if runs and (len(runs) >= most or size > BATCH_BYTES):
                break
            run = [source.ready.popleft()]
            while (other := self._head(source, now)) and _may_join(run, other):
                run.append(source.ready.popleft())
                size += len(other.job.data)
            runs.append(run)
        return runs

    def _head(self, source: Source, now: float) -> Held | None:
        """Return the first ready job that may run beside others; None: there is none.

        Those before it are ready no more. `now` is the time by which locks end (boottime).
        """
        while source.ready:
            held = source.ready[0]
            if held.until <= now:
                log_expired_lock(held.job)
                source.hand_back(source.ready.popleft())
            elif held.job.jid in self._suspects:
                self._apart.append(source.ready.popleft())
                self.changed.set()
            else:
                return held
        return None

    def _most_runs(self, held: Held) -> int:
        """Return how many runs like that of this job may be sent in one message."""
        if self.pool.one_job_only:
            return 1
        mean = self._means.get((held.source.alias, held.job.klass))
        if mean is None or mean >= SHORT:
            return 1
        return int(BATCH / max(mean, 1e-6))

    # What children return.

    def jobs_done(self, child: ChildProcess, rows: list[Done]) -> None:
        """Take the outcomes of jobs, and give the child others."""
        now = time.monotonic()
        for token, verb, args, waited, seconds, is_alone in rows:
            held = child.returned(token)
            if held is None:
                continue
            source = held.source
            del source.held[token]
            if held.is_lost:
                self.hub.lost(held)
                continue
            if waited is not None:
                self._note_duration(held, seconds, is_alone=is_alone)
            jid = held.job.jid
            if self._suspects:
                self._suspects.pop(jid, None)
            source.end(Settlement(jid, token, verb, args, waited), held.job)
        child.changed = now
        self._note_rate(len(rows), now)
        self.child_changed(child)

    def child_changed(self, child: ChildProcess) -> None:
        """Give a child more to do, or let it end."""
        if child.is_leaving:
            if not child.jobs and not child.taken_back:
                child.end_when_idle()
            self.changed.set()
        if child.is_apart:
            self._give_apart(child)
        else:
            self.give()
        for source in self.hub.sources:
            source.changed.set()

    def child_ended(self, child: ChildProcess, crashed: Sequence[str]) -> None:
        """Suspect the jobs with which a child has crashed, if it was not only one."""
        if not self.pool.one_job_each and len(crashed) > 1:
            until = time.monotonic() + ISOLATION
            self._suspects.update(dict.fromkeys(crashed, until))
        self.changed.set()
        self.give()
        for source in self.hub.sources:
            source.changed.set()

    def _note_duration(self, held: Held, seconds: float, *, is_alone: bool) -> None:
        kind = held.source.alias, held.job.klass
        if is_alone or len(self._means) > MOST_TYPES:
            self._means.pop(kind, None)
            return
        mean = self._means.get(kind)
        if mean is None or seconds > SHORT:
            self._means[kind] = seconds
        else:
            self._means[kind] = (1 - WEIGHT) * mean + WEIGHT * seconds

    def _note_rate(self, count: int, now: float) -> None:
        """Count jobs that have ended, for the number that is held ahead."""
        self._counted += count
        passed = now - self._counted_since
        is_enough = self._counted >= RATE_JOBS and passed >= AHEAD / 2
        if is_enough or passed >= RATE_SECONDS:
            rate = self._counted / passed
            self._rate = rate if rate < self._rate else (self._rate + rate) / 2
            self._counted, self._counted_since = 0, now

    async def return_unbegun(self) -> None:
        """Hand back jobs that have waited for too long, for ever."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while any(source.ready for source in self.hub.sources) or any(
                child.may_keep_waiting for child in self.job_children
            ):
                await asyncio.sleep(MOST_WAIT / 2)
                now = time.monotonic()
                for child in self.job_children:
                    if child.may_keep_waiting and now - child.changed > MOST_WAIT:
                        await self.take_back(child)
                for source in self.hub.sources:
                    if source.hand_back_ready(now - MOST_WAIT):
                        self._nothing_ahead_until = now + NOTHING_AHEAD

    def hand_back(self) -> None:
        """Hand back all jobs that no child has."""
        for source in self.hub.sources:
            source.hand_back_ready()
        for held in self._apart:
            if held.source.held.get(held.job.token) is held:
                held.source.hand_back(held)
        self._apart.clear()

    async def take_back(self, child: ChildProcess) -> None:
        """Take back the jobs that wait in a child behind one that takes its time."""
        child.stop_after_running()
        await asyncio.sleep(CERTAIN)
        for held in reversed(child.take_back()):
            if held.is_lost:
                del held.source.held[held.job.token]
            else:
                held.source.ready.appendleft(held)
        self.give()

    # How many children there are.

    async def keep_children(self) -> None:
        """Start the children that are missing, for ever."""
        while True:
            self.changed.clear()
            pause = self.hub.children.backoff.due - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            if kind := self._missing():
                await self._start(*kind)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.changed.wait()

    def _missing(self) -> tuple[str, int, bool] | None:
        """Return kind, capacity and isolation of a child that is missing; None: none is."""
        if self.hub.shutdown.stage is not Stage.RUNNING:
            return None
        children, concurrency = self.job_children, self.options.concurrency
        if self.pool.one_job_each:
            wanted = concurrency + self.pool.one_job_only
            if len(children) < wanted:
                return "job", 1, False
        elif all(child.is_leaving or child.is_apart for child in children):
            return "job", concurrency, False
        apart = [child for child in children if child.is_apart]
        waiting = min(ISOLATED, len(self._apart))
        if (
            sum(not child.jobs and not child.is_leaving for child in apart) < waiting
            and len(apart) < ISOLATED
        ):
            return "job", 1, True
        if self.helper_wanted and all(c.kind == "job" for c in self.hub.children):
            return "helper", 0, False
        return None

    async def _start(self, kind: str, capacity: int, is_apart: bool) -> None:
        try:
            child = await self.hub.children.start(
                kind, capacity, in_order=self.pool.one_job_each
            )
        except OSError as error:
            log_event(logging.ERROR, "no child can be started", error=error)
            self.hub.children.backoff.wait(1.0)
            return
        child.is_apart = is_apart

    def _give_apart(self, child: ChildProcess) -> None:
        """Give a child of its own to a job that may have killed a process."""
        now = time.monotonic()
        while self._apart and child.room:
            held = self._apart.pop(0)
            if held.source.held.get(held.job.token) is not held:
                continue
            if held.until <= boottime():
                log_expired_lock(held.job)
                held.source.hand_back(held)
            else:
                self._send(child, held.source, [[held]])
        self._suspects = {
            j: until for j, until in self._suspects.items() if until > now
        }
        if child.room:
            child.is_leaving = True
            child.end_when_idle()


def _may_join(run: list[Held], held: Held) -> bool:
    """Return whether an entity may run together with these."""
    first, job = run[0].job, held.job
    return (
        len(run) < first.batch
        and job.batch > 0
        and (job.klass, job.queue) == (first.klass, first.queue)
    )
