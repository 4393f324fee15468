"""Running one job: from its reservation to its settlement."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from django_qless.exceptions import Fail, QlessError
from django_qless.job_types.current import CurrentJob
from django_qless.worker import failure_report
from django_qless.worker.failure_policy import FailurePolicy, UnknownName
from django_qless.worker.outcome import COMPLETE, MOVE, Outcome, log_outcome
from django_qless.worker.sandbox import Sandboxes

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved, Settlement
    from django_qless.runtime.environment import DjangoEnvironment

logger = logging.getLogger("django_qless.worker")
#: The process, and the time (monotonic), in which a run began.
Start = tuple[int, float]


class Execution:
    """Runs jobs in this process; several threads, or tasks, may share one."""

    def __init__(
        self,
        environment: DjangoEnvironment,
        client: Client,
        worker: str,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        self.environment = environment
        self.client = client
        self.worker = worker
        self.sandboxes = sandboxes or Sandboxes()
        self.policy = FailurePolicy(environment)

    # The steps of a run. Those around `attempt` keep no outcome in a variable: the
    # traceback of its exception refers to their frames, and would never be freed.

    def perform(self, reserved: Reserved) -> Settlement:
        """Run the job and return how to settle it. Raises nothing."""
        return self.run(reserved).settlement(reserved)

    def run(self, reserved: Reserved) -> Outcome:
        """Run the job, then log and announce its outcome."""
        start, current = (os.getpid(), time.monotonic()), self.current(reserved)
        return self.conclude(start, current, self.attempt(current))

    async def aperform(self, reserved: Reserved) -> Settlement:
        """Asynchronous version of `perform`, in a task that is for this job alone."""
        start, current = (os.getpid(), time.monotonic()), self.current(reserved)
        outcome = self.aconclude(start, current, await self.aattempt(current))
        return (await outcome).settlement(reserved)

    def attempt(self, current: CurrentJob) -> Outcome:
        """Run the job's function; return the outcome."""
        try:
            self.prepare(current)
            if self.environment.has_listeners("started"):
                self.environment.announce("started", current)
            return self.returned(current, self.environment.run(current))
        except BaseException as error:  # noqa: BLE001  all that a job raises ends it
            return self.policy.raised(current.reserved, error)

    async def aattempt(self, current: CurrentJob) -> Outcome:
        """Asynchronous version of `attempt`."""
        try:
            self.prepare(current)
            if self.environment.has_listeners("started"):
                await self.environment.aannounce("started", current)
            return self.returned(current, await self.environment.arun(current))
        except BaseException as error:  # noqa: BLE001  all that a job raises ends it
            return self.policy.raised(current.reserved, error)

    def prepare(self, current: CurrentJob) -> None:
        """Resolve the job's type, open what is sealed. Raises UnknownName."""
        environment = self.environment
        job_type = current.job_type = environment.resolve(current.reserved.klass)
        if job_type is None:
            raise UnknownName
        reserved = current.reserved = environment.opened(current.reserved)
        current.soft_timeout = environment.limits(job_type, reserved).soft

    def conclude(self, start: Start, current: CurrentJob, outcome: Outcome) -> Outcome:
        """Log and announce the outcome, except in a copy of the process."""
        process, began = start
        if process == os.getpid():
            self.log(current.reserved, outcome, began)
            if current.reserved.token in self.sandboxes.in_use:
                self.sandboxes.remove(current.reserved)
            event = outcome.kind.event
            if self.environment.has_listeners(event):
                self.environment.announce(event, current, **outcome.details)
        return outcome

    async def aconclude(
        self, start: Start, current: CurrentJob, outcome: Outcome
    ) -> Outcome:
        """Asynchronous version of `conclude`."""
        process, began = start
        if process == os.getpid():
            self.log(current.reserved, outcome, began)
            if current.reserved.token in self.sandboxes.in_use:
                await asyncio.to_thread(self.sandboxes.remove, current.reserved)
            event = outcome.kind.event
            if self.environment.has_listeners(event):
                await self.environment.aannounce(event, current, **outcome.details)
        return outcome

    def log(self, reserved: Reserved, outcome: Outcome, began: float) -> None:
        """Log the outcome of a run that began then (monotonic). Raises nothing.

        It happens in this process, which has the exception with its traceback.
        """
        try:
            if logger.isEnabledFor(outcome.kind.level):
                hides = outcome.exception is not None and self.policy.hides(reserved)
                seconds = time.monotonic() - began
                log_outcome(reserved, outcome, seconds, hides=hides)
        except Exception:  # noqa: BLE001  a handler of the project
            # It must not cost the job its outcome, and to log it would raise again.
            traceback.print_exc()

    def current(self, reserved: Reserved) -> CurrentJob:
        """Return the job as its function and receivers of signals see it."""
        return CurrentJob(
            reserved,
            self.client,
            self.worker,
            sandboxes=self.sandboxes,
            runtime=self.environment,
        )

    def shown(self, reserved: Reserved) -> CurrentJob:
        """Return a job that does not run here, opened if that is possible."""
        with suppress(Exception):
            reserved = self.environment.opened(reserved)
        return self.current(reserved)

    def returned(self, current: CurrentJob, result: object) -> Outcome:
        """Return the outcome of a job that returned: complete, or moved to another queue."""
        if current.moved_to is not None:
            return Outcome(MOVE, result, current.moved_to)
        data: tuple[str, ...] = ()
        if current.final_data is not None:
            data = (self.environment.sealed(current.final_data),)
        ttl = 0.0
        if result is not None:
            ttl = current.job_type.options_for(current.reserved.context).result_ttl
        if ttl:
            return Outcome(COMPLETE, result, (self.kept_text(result), ttl, *data))
        return Outcome(COMPLETE, result, ("", 0, *data) if data else ())

    def kept_text(self, result: object) -> str:
        """Return the result as the server keeps it. Raises Fail if it cannot be kept."""
        try:
            text = self.environment.sealed(self.environment.encode_result(result))
            if (size := len(text.encode())) <= failure_report.MAX_BYTES:
                return text
            why = (
                f"The result takes {size} bytes, more than {failure_report.MAX_BYTES}. "
                "Keep it elsewhere and return a reference."
            )
        except Exception as error:  # noqa: BLE001  a hostile result
            why = error.detail if isinstance(error, QlessError) else str(error)
        # Another attempt would do the work again and return the same.
        message = f"The job has done its work, but its result cannot be kept: {why}"
        raise Fail(failure_report.BAD_RESULT, message)
