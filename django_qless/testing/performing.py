"""How a job is run in the process of a test: as by a worker, with open eyes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from django.db import connections as databases

from django_qless.core import Put
from django_qless.exceptions import QlessError, Retry
from django_qless.handle import JobHandle
from django_qless.running.environment import DjangoEnvironment
from django_qless.running.tidiness import Depths, LeftOpen
from django_qless.testing.captured import CapturedJob
from django_qless.testing.runs import OUTCOMES, Run
from django_qless.worker.execution import Execution
from django_qless.worker.telling import is_final

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved, Settlement
    from django_qless.core.reserved import Settled
    from django_qless.current import CurrentJob
    from django_qless.registry import JobType


class UnknownJob(QlessError):
    """Is the module with the job imported? A worker would have imported the modules
    `jobs` and `tasks` of all apps."""


class EndlessJobs(QlessError):
    """Do jobs put each other, or themselves again, for ever? Give another `limit`, or
    look at what runs with run_jobs(until_empty=False)."""


class TestsEnvironment(DjangoEnvironment):
    """A Django project in a test, whose database connections are the test's own.

    They are neither looked at nor closed, nor are the queries forgotten that
    `assertNumQueries` counts. Only transactions that a job has left open are ended.
    """

    __test__ = False  # for pytest: not a class of tests

    @staticmethod
    def before_job() -> Depths:
        """Return how deep in transactions the thread is in each database."""
        opened = databases.all(initialized_only=True)
        return [(database, len(database.atomic_blocks)) for database in opened]

    @staticmethod
    def after_job(depths: Depths | None, *, suspect: bool = False) -> None:
        """Roll back what the job left open."""
        before = dict(depths or ())
        for database in databases.all(initialized_only=True):
            for _ in range(len(database.atomic_blocks) - before.get(database, 0)):
                database.atomic_blocks[-1].__exit__(LeftOpen, LeftOpen(), None)


class Rehearsal(Execution):
    """Runs jobs and tells what they returned and raised, not only how to settle them."""

    def __init__(self, alias: str, client: Client, worker: str = "") -> None:
        super().__init__(TestsEnvironment(alias), client, worker or worker_name())
        self.alias = alias
        self._result: Any = None
        self._raised: BaseException | None = None

    def run(self, reserved: Reserved, *, last: bool = False) -> Run:
        """Run the job, settle it, and return how it went.

        `last` says that a failure is final, whatever the job's retries say.
        """
        self._result = self._raised = None
        settlement = self.perform(reserved)
        result, raised = self._result, self._raised
        self._result = self._raised = None
        if last and settlement.verb == "retry":
            settlement = settlement._replace(verb="fail", args=settlement.args[1:])
        settled: Settled = self.client.settle(self.worker, [settlement], 0, [])
        verb = settlement.verb
        outcome = OUTCOMES[verb]
        if outcome == "retried" and is_final(reserved, settlement):
            outcome = "failed"
        if settled.refused:
            outcome = "lost"
        group, message = "", ""
        if verb in ("fail", "retry"):
            group, message = map(str, settlement.args[-2:])
        return Run(
            job=seen(self.alias, reserved),
            outcome=outcome,
            attempt=reserved.retries - reserved.remaining + 1,
            result=result,
            exception=raised,
            group=group,
            message=message,
        )

    def tell(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing: the test sees the exception itself."""

    def returned(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob, result: object
    ) -> Settlement:
        """Settle a job that returned; remember what."""
        self._result = result
        return super().returned(job_type, reserved, current, result)

    def raised(self, reserved: Reserved, error: BaseException) -> Settlement:
        """Settle a job that raised; remember what."""
        self._raised = error
        return super().raised(reserved, error)


def must_go_well(run: Run, *, retries: bool) -> None:
    """Raise what made a run fail; `retries` says that it is run again if it is retried."""
    if run.outcome == "unknown":
        raise UnknownJob(f"No job is called {run.name!r} in this process")
    if run.outcome == "retried" and (retries or isinstance(run.exception, Retry)):
        return
    if run.outcome in ("failed", "retried", "released"):
        raise run.exception or AssertionError(f"{run!r}\n{run.message}")


def must_not_be_swallowed(run: Run) -> None:
    """Raise what is no failure of the job: Ctrl-C, and the words of a test framework.

    And that jobs are run for ever.
    """
    raised = run.exception
    if raised is None:
        return
    failure = isinstance(raised, (Exception, SystemExit))
    if not failure or isinstance(raised, EndlessJobs):
        raise raised


def seen(alias: str, reserved: Reserved) -> CapturedJob:
    """Return a job that was handed out as a job that was put."""
    put = Put(
        jid=reserved.jid,
        queue=reserved.queue,
        klass=reserved.klass,
        data=reserved.data,
        priority=reserved.priority,
        retries=reserved.retries,
        tags=reserved.tag_list,
        context=reserved.context or None,
    )
    handle = JobHandle.of_put(alias, put.jid, put, put.data, pending=False)
    return CapturedJob(alias, handle, put)


def worker_name() -> str:
    """Return the name of the worker that this process of tests is."""
    return f"tests-{os.getpid()}"
