"""Execution of one job in the process of a test, as in a worker."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from django.db import connections as databases

from django_qless import conf
from django_qless.conf.connection_factory import factory_for
from django_qless.conf.connections import clock_of
from django_qless.core import Client
from django_qless.enqueue.request import EnqueueBatch
from django_qless.exceptions import QlessError, Retry
from django_qless.job_types.handle import JobHandle
from django_qless.runtime.connection_cleanup import Depths, depths_of, roll_back_to
from django_qless.runtime.environment import DjangoEnvironment
from django_qless.testing import captured, clock, dispatcher
from django_qless.testing.captured import CapturedJob, Run, put_like
from django_qless.worker import failure_report
from django_qless.worker.entity_runs import EntityRun
from django_qless.worker.exception_groups import decisive
from django_qless.worker.execution import Execution
from django_qless.worker.outcome import (
    COMPLETE,
    EXHAUSTED,
    FAIL,
    MOVE,
    RELEASE,
    RETRY,
    UNKNOWN,
    Kind,
    Outcome,
)
from django_qless.worker.source import GONE
from django_qless.workflows.spawn import SpawnedBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Reserved
    from django_qless.enqueue.dispatchable import Dispatchable

OUTCOMES: dict[Kind, captured.Outcome] = {
    COMPLETE: "complete",
    FAIL: "failed",
    EXHAUSTED: "failed",
    RETRY: "retried",
    MOVE: "moved",
    RELEASE: "released",
    UNKNOWN: "unknown",
}


class UnknownJob(QlessError):
    """Is the module with the job imported? A worker would have imported the modules
    `jobs` and `tasks` of all apps."""


class EndlessJobs(QlessError):
    """Do jobs enqueue each other, or themselves, without end? Give another `limit`, or
    look at what runs with run_jobs(until_empty=False)."""


class TestEnvironment(DjangoEnvironment):
    """Django environment that leaves the test's own database connections alone.

    They are neither checked nor closed, nor are the queries forgotten that
    `assertNumQueries` counts. Only transactions that a job has left open are ended.
    """

    __test__ = False  # for pytest: not a class of tests

    @staticmethod
    def before_job() -> Depths:
        """Return the transaction depth of each database connection of the thread."""
        return depths_of(databases.all(initialized_only=True))

    @staticmethod
    def after_job(depths: Depths | None, *, suspect: bool = False) -> None:
        """Roll back what the job left open."""
        roll_back_to(depths, databases.all(initialized_only=True))


class TestExecution(Execution):
    """Runs jobs and reports their outcomes to the server."""

    __test__ = False  # for pytest: not a class of tests

    def __init__(self, alias: str, client: Client) -> None:
        super().__init__(TestEnvironment(alias), client, f"tests-{os.getpid()}")
        self.alias = alias

    def run_job(self, reserved: Reserved, *, retry: bool = True) -> Run:
        """Run a job, report its outcome to the server, and return its run.

        Without `retry` a failure is final, whatever retries the job has left.
        """
        return self._settled(reserved, self.run(reserved), retry=retry)

    def run_entities(
        self, jobs: Sequence[Reserved], *, retry: bool = True
    ) -> list[Run]:
        """Run entities together, report their outcomes, and return their runs."""
        outcomes = EntityRun(self, jobs).run()
        pairs = zip(jobs, outcomes, strict=True)
        return [self._settled(job, outcome, retry=retry) for job, outcome in pairs]

    def _settled(self, reserved: Reserved, outcome: Outcome, *, retry: bool) -> Run:
        """Report an outcome to the server; return the run."""
        if not retry and outcome.kind in (RETRY, EXHAUSTED):
            outcome = outcome._replace(kind=FAIL)
        outcome, is_lost = self._settle(reserved, outcome)
        return Run(
            job=_as_captured(self.alias, reserved),
            outcome="lost" if is_lost else OUTCOMES[outcome.kind],
            attempt=reserved.retries - reserved.remaining + 1,
            result=outcome.result,
            exception=outcome.exception,
            group=outcome.group,
            message=outcome.message,
        )

    def _settle(self, reserved: Reserved, outcome: Outcome) -> tuple[Outcome, bool]:
        """Report an outcome; return what became of it, and whether the job was lost.

        As with a worker it fails if the server refuses something else.
        """
        settlement = outcome.settlement(reserved)
        refused = self.client.settle(self.worker, [settlement], 0, []).refused
        if not refused or refused[0].code in GONE:
            return outcome, bool(refused)
        group, message = failure_report.refusal(settlement.verb, refused[0].text)
        outcome = outcome._replace(kind=FAIL, group=group, message=message)
        settlement = outcome.settlement(reserved)
        refused = self.client.settle(self.worker, [settlement], 0, []).refused
        return outcome, bool(refused)

    def log(self, reserved: Reserved, outcome: Outcome, began: float) -> None:
        """Log nothing: the test sees the exception itself."""


class DetachedDispatcher(dispatcher.TestDispatcher):
    """Enqueues what a job spawns as ordinary jobs.

    A job that runs in isolation has no record on the server to which they could belong.
    """

    def __init__(self, outer: dispatcher.TestDispatcher) -> None:
        self._outer = outer

    def deliver(self, dispatchable: Dispatchable, *, on_commit: bool = False) -> None:
        """Hand the jobs to the outer dispatcher."""
        self._outer.deliver(_detached(dispatchable), on_commit=on_commit)

    async def adeliver(self, dispatchable: Dispatchable) -> None:
        """Hand the jobs to the outer dispatcher, from asynchronous code."""
        await self._outer.adeliver(_detached(dispatchable))


def run_isolated(job: CapturedJob, *, raise_failures: bool) -> Run:
    """Run a captured job in an empty namespace; return its run.

    Raises what it raised unless `raise_failures` is False.
    """
    dispatcher.ensure_begun()
    settings = conf.alias(job.alias)
    alone = put_like(job.put, tags=job.put.tags, context=job.put.context)
    with closing(
        Client(
            factory_for(settings).client(),
            prefix=f"{settings.prefix}alone-{job.jid}:",
        )
    ) as client:
        client.script.now = clock_of(job.alias)
        execution = TestExecution(job.alias, client)
        client.put_many("", [alone])
        [reserved] = client.settle(execution.worker, [], 1, [job.queue]).jobs
        with (
            dispatcher.using(DetachedDispatcher(dispatcher.in_use())),
            clock.keep_lock(job.alias, reserved.jid, reserved.token),
        ):
            run = execution.run_job(reserved)
        if run.outcome == "retried":
            client.cancel(job.jid)
    raise_interrupt(run)
    if raise_failures:
        raise_failure(run, retries=False)
    return run


def raise_failure(run: Run, *, retries: bool) -> None:
    """Raise the failure of a run; with `retries` only one without a further attempt."""
    if run.outcome == "unknown":
        raise UnknownJob(f"No job is called {run.name!r} in this process")
    wants_retry = run.exception and isinstance(decisive(run.exception), Retry)
    if run.outcome == "retried" and (retries or wants_retry):
        return
    if run.outcome in ("failed", "retried", "released"):
        raise run.exception or AssertionError(f"{run!r}\n{run.message}")


def raise_interrupt(run: Run) -> None:
    """Raise an exception that is no failure of the job.

    Ctrl-C, the exceptions of test frameworks, and EndlessJobs.
    """
    exception = run.exception
    if exception is not None and (
        isinstance(exception, EndlessJobs)
        or not isinstance(exception, (Exception, SystemExit))
    ):
        raise exception


def _as_captured(alias: str, reserved: Reserved) -> CapturedJob:
    """Return a reserved job as it was enqueued."""
    context = reserved.context or None
    put = put_like(reserved, tags=reserved.tag_list, context=context)
    handle = JobHandle.of_put(alias, put.jid, put, put.data, pending=False)
    return CapturedJob(alias, handle, put)


def _detached(dispatchable: Dispatchable) -> Dispatchable:
    if isinstance(dispatchable, SpawnedBatch):
        return EnqueueBatch(dispatchable.requests)
    return dispatchable
