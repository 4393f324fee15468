"""`run_jobs`: runs what has been put, through the real core, in the process of the test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async

from django_qless.conf import DEFAULT_ALIAS
from django_qless.connections import connections
from django_qless.testing import clocks, ticking
from django_qless.testing.performing import (
    EndlessJobs,
    Rehearsal,
    must_go_well,
    must_not_be_swallowed,
)
from django_qless.testing.runs import Run, Runs

if TYPE_CHECKING:
    from django_qless.core import Reserved

#: So many runs are a loop: jobs that put each other, or themselves, for ever.
MOST_RUNS = 10_000
# What one call may hand out.
MOST_JOBS = 250


def run_jobs(
    *queues: str,
    alias: str = DEFAULT_ALIAS,
    until_empty: bool = True,
    with_scheduled: clocks.Span = False,
    raise_failures: bool = True,
    limit: int = MOST_RUNS,
) -> Runs:
    """Run the jobs of these queues (names and globs; none: all) here; return their runs.

    Each job is handed out, run and settled as by a worker. With `until_empty`, what they
    put themselves is run as well; without, only what is ready now.

    `with_scheduled` moves time on instead of waiting: True runs all that is scheduled for
    later, retries too, in the order in which it falls due; seconds, a timedelta or a
    datetime run what falls due until then, each tick of recurring jobs included.

    With `raise_failures` the first failure is raised, as the exception that the job
    raised, when the job has been settled: a failure that no retry follows here. Raises
    EndlessJobs after `limit` runs.
    """
    from django_qless.testing.beginning import begun

    begun()
    drain = Drain(
        alias,
        queues,
        until=clocks.end_of(with_scheduled, alias),
        raise_failures=raise_failures,
        limit=limit,
    )
    return drain.run() if until_empty else drain.run_ready()


async def arun_jobs(
    *queues: str,
    alias: str = DEFAULT_ALIAS,
    until_empty: bool = True,
    with_scheduled: clocks.Span = False,
    raise_failures: bool = True,
    limit: int = MOST_RUNS,
) -> Runs:
    """Do as `run_jobs` does, from asynchronous code: in the thread of `sync_to_async`."""
    return await sync_to_async(run_jobs)(
        *queues,
        alias=alias,
        until_empty=until_empty,
        with_scheduled=with_scheduled,
        raise_failures=raise_failures,
        limit=limit,
    )


class Drain:
    """Runs the jobs of some queues of one alias."""

    def __init__(
        self,
        alias: str,
        queues: Sequence[str] = (),
        *,
        until: float | None = None,
        raise_failures: bool = True,
        at_once: bool = False,
        limit: int = MOST_RUNS,
    ) -> None:
        """`until`: how far time may be moved; `at_once`: no retries where it is raised."""
        self._alias = alias
        self._queues = tuple(queues) or ("*",)
        self._until = until
        self._raise = raise_failures
        self._at_once = at_once and raise_failures
        self._limit = limit
        self._client = connections[alias]
        self._rehearsal = Rehearsal(alias, self._client)
        self.runs = Runs()
        #: The time, if it has been moved.
        self._moment: float | None = None

    def run(self) -> Runs:
        """Run jobs until none is ready, and none will be within the time."""
        while True:
            with clocks.moved(self._alias, self._moment):
                for job in self._reserved(1):
                    self._perform(job)
                    break
                else:
                    if not self._move_on():
                        return self.runs

    def run_ready(self) -> Runs:
        """Run the jobs that are ready now, and not what they put."""
        self._moment = None if self._until in (None, math.inf) else self._until
        with clocks.moved(self._alias, self._moment):
            for job in list(self._reserved(MOST_JOBS)):
                self._perform(job)
        return self.runs

    def _reserved(self, count: int) -> Iterator[Reserved]:
        worker = self._rehearsal.worker
        while jobs := self._client.settle(worker, [], count, self._queues).jobs:
            yield from jobs

    def _perform(self, job: Reserved) -> Run:
        if len(self.runs) >= self._limit:
            self._client.release(job.jid, job.token)
            last = "\n".join(f"    {run!r}" for run in self.runs[-3:])
            raise EndlessJobs(
                f"{self._limit} jobs have run, the last of them\n{last}\n"
            )
        with clocks.held(self._alias, job.jid, job.token):
            run = self._rehearsal.run(job, last=self._at_once)
        self.runs.append(run)
        must_not_be_swallowed(run)
        if self._raise:
            must_go_well(run, retries=self._until is not None)
        return run

    def _move_on(self) -> bool:
        """Move time to where the next job falls due; return whether there is one."""
        if self._until is None:
            return False
        if self._moment is None:
            # What fell due since the last look is not in the future any more.
            self._go_to(clocks.now(self._alias))
            return True
        due = self._next_due(self._moment)
        if due is None or due > self._until:
            return False
        # A microsecond more than the due time, which has more digits than the clock.
        self._go_to(due + 1e-6)
        return True

    def _go_to(self, moment: float) -> None:
        self._moment = moment
        # Towards no end cron schedules would tick for ever: time moves without them.
        if self._until != math.inf:
            with clocks.moved(self._alias, moment):
                ticking.tick(self._client, self._rehearsal.worker)

    def _next_due(self, moment: float) -> float | None:
        """Return when the next job falls due after this moment.

        What was due before and is still there is held back: its queue is paused, say.
        Recurring jobs count only where time has an end.
        """
        names = [
            counts.name
            for counts in self._client.queues()
            if any(fnmatchcase(counts.name, glob) for glob in self._queues)
        ]
        times = []
        for due in self._client.due(names) if names else ():
            times.append(due.scheduled)
            if self._until != math.inf:
                times.append(due.recurring)
        if self._until != math.inf:
            times.append(ticking.next_tick(self._client))
        later = (each for each in times if each is not None and each > moment)
        return min(later, default=None)
