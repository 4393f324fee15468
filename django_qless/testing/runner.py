"""`run_jobs`: runs enqueued jobs through the real core, in the process of the test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_qless import conf
from django_qless.conf.connections import connections
from django_qless.core.globs import matches_any
from django_qless.testing import clock
from django_qless.testing.captured import Run, Runs
from django_qless.testing.dispatcher import ensure_begun
from django_qless.testing.execution import (
    EndlessJobs,
    TestExecution,
    raise_failure,
    raise_interrupt,
)
from django_qless.worker import ticker

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved

#: This many runs are a loop: jobs that enqueue each other, or themselves, without end.
MAX_RUNS = 10_000
# Jobs that one call may reserve.
MAX_RESERVED = 250
# Schedules that one call lists.
MAX_SCHEDULES = 1000


def run_jobs(
    *queues: str,
    alias: str | None = None,
    until_empty: bool = True,
    with_scheduled: clock.Horizon = False,
    raise_failures: bool = True,
    limit: int = MAX_RUNS,
) -> Runs:
    """Run the jobs of these queues (names and globs; none: all) here; return their runs.

    Without an `alias` they are those of all aliases.
    Each job is reserved, run and finished as by a worker. With `until_empty`, the jobs
    that they enqueue run as well; without, only those that are ready now.

    `with_scheduled` moves time on instead of waiting: True runs all that is scheduled for
    later, retries too, in the order in which it falls due; seconds, a timedelta or a
    datetime run what falls due until then, each tick of recurring jobs included.

    With `raise_failures` the first failure that no retry follows is raised here, as the
    exception that the job raised, when the job has finished. Raises EndlessJobs after
    `limit` runs.
    """
    ensure_begun()
    runs = Runs()
    runners = [
        JobRunner(
            name,
            queues,
            until=clock.end_of(with_scheduled, name),
            raise_failures=raise_failures,
            limit=limit,
            runs=runs,
        )
        for name in (conf.alias_names() if alias is None else [alias])
    ]
    if not until_empty:
        for runner, ready in [(runner, runner.reserve_ready()) for runner in runners]:
            runner.run_reserved(ready)
        return runs
    while True:
        before = len(runs)
        for runner in runners:
            runner.run()
        # A job may have enqueued others in an alias whose turn is over.
        if len(runners) == 1 or len(runs) == before:
            return runs


async def arun_jobs(
    *queues: str,
    alias: str | None = None,
    until_empty: bool = True,
    with_scheduled: clock.Horizon = False,
    raise_failures: bool = True,
    limit: int = MAX_RUNS,
) -> Runs:
    """Asynchronous version of `run_jobs`, in the thread of `sync_to_async`."""
    return await sync_to_async(run_jobs)(
        *queues,
        alias=alias,
        until_empty=until_empty,
        with_scheduled=with_scheduled,
        raise_failures=raise_failures,
        limit=limit,
    )


class JobRunner:
    """Runs the jobs of some queues of one alias."""

    def __init__(
        self,
        alias: str,
        queues: Sequence[str] = (),
        *,
        until: float | None = None,
        raise_failures: bool = True,
        retry: bool = True,
        limit: int = MAX_RUNS,
        runs: Runs | None = None,
    ) -> None:
        """`until`: how far time may move; without `retry` every failure is final.

        `runs` are those before it, to which its own are added.
        """
        self._alias = alias
        self._queues = tuple(queues) or ("*",)
        self._until = until
        self._raise_failures = raise_failures
        self._retry = retry
        self._limit = limit
        self._client = connections[alias]
        self._execution = TestExecution(alias, self._client)
        self.runs = Runs() if runs is None else runs
        #: The time, if it has been moved.
        self._moment: float | None = None

    def run(self) -> None:
        """Run jobs until none is ready, and none will be within the time."""
        self._serve_schedules()
        while True:
            with clock.travel_to(self._alias, self._moment):
                jobs = self._reserve(1)
                if jobs:
                    self._run_all(jobs)
                elif not self._move_on():
                    return

    def reserve_ready(self) -> list[Reserved]:
        """Reserve the jobs that are ready now."""
        self._moment = None if self._until in (None, math.inf) else self._until
        found: list[Reserved] = []
        self._serve_schedules()
        with clock.travel_to(self._alias, self._moment):
            while jobs := self._reserve(MAX_RESERVED):
                found += jobs
        return found

    def run_reserved(self, jobs: list[Reserved]) -> None:
        """Run them, without those that they enqueue."""
        with clock.travel_to(self._alias, self._moment):
            self._run_all(jobs)

    def _reserve(self, count: int) -> list[Reserved]:
        worker = self._execution.worker
        return self._client.settle(worker, [], count, self._queues).jobs

    def _run_all(self, jobs: list[Reserved]) -> None:
        """Run jobs in order; those of entities together, as in a worker."""
        for key, together in groupby(jobs, lambda job: job.batch and job.klass):
            if key:
                self._run_entities(list(together))
            else:
                for job in together:
                    self._run(job)

    def _run_entities(self, jobs: list[Reserved]) -> None:
        size = jobs[0].batch
        for at in range(0, len(jobs), size):
            part = jobs[at : at + size]
            self._check_limit(part)
            self._keep(self._execution.run_entities(part, retry=self._retry))

    def _run(self, job: Reserved) -> None:
        self._check_limit([job])
        with clock.keep_lock(self._alias, job.jid, job.token):
            run = self._execution.run_job(job, retry=self._retry)
        self._keep([run])

    def _keep(self, runs: list[Run]) -> None:
        """Add these runs; raise the first failure or interrupt among them."""
        self.runs.extend(runs)
        for run in runs:
            raise_interrupt(run)
            if self._raise_failures:
                raise_failure(run, retries=self._until is not None)

    def _check_limit(self, jobs: list[Reserved]) -> None:
        """Hand these back and raise EndlessJobs if enough jobs have run."""
        if len(self.runs) < self._limit:
            return
        for job in jobs:
            self._client.release(job.jid, job.token)
        last = "\n".join(f"    {run!r}" for run in self.runs[-3:])
        raise EndlessJobs(f"{self._limit} jobs have run, the last of them\n{last}\n")

    def _move_on(self) -> bool:
        """Move time to where the next job falls due; return whether there is one."""
        if self._until is None:
            return False
        if self._moment is None:
            # What fell due since the last look is not in the future any more.
            self._go_to(clock.now(self._alias))
            return True
        due = self._next_due(self._moment)
        if due is None or due > self._until:
            return False
        # A microsecond more than the due time, which has more digits than the clock.
        self._go_to(due + 1e-6)
        return True

    def _go_to(self, moment: float) -> None:
        self._moment = moment
        # Without an end schedules would tick for ever: time moves without them.
        if self._until != math.inf:
            self._serve_schedules()

    def _serve_schedules(self) -> None:
        """Enqueue the jobs of ticks that are due, as the parent process of a worker does."""
        with clock.travel_to(self._alias, self._moment):
            while ticker.serve(self._client, self._execution.worker) == 0:
                pass

    def _next_due(self, moment: float) -> float | None:
        """Return when the next job falls due after this moment.

        A job that was due before and is still there is held back: its queue is paused,
        say. Recurring jobs count only where time has an end.
        """
        names = [
            counts.name
            for counts in self._client.queues()
            if matches_any(counts.name, self._queues)
        ]
        dues: list[Any] = list(self._client.due(names)) if names else []
        times = [due.scheduled for due in dues]
        if self._until != math.inf:
            times += [due.recurring for due in dues]
            times.append(_next_tick(self._client))
        later = (each for each in times if each is not None and each > moment)
        return min(later, default=None)


def _next_tick(client: Client) -> float | None:
    # The list begins with the next to tick. Times have fewer digits there than the core has.
    for schedule in client.schedule_list(0, MAX_SCHEDULES).schedules:
        if schedule.next is not None:
            return schedule.next + 0.001
    return None
