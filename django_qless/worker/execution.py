"""Running one job and deciding its outcome: the policy of failure."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from django_qless.core import Reserved, Settlement
from django_qless.exceptions import (
    Fail,
    JobLost,
    JobTimeout,
    QlessError,
    Retry,
    ShuttingDown,
)
from django_qless.job_types.backoff import DEFAULT_BACKOFF
from django_qless.job_types.current import CurrentJob
from django_qless.worker import failure_report
from django_qless.worker.exception_groups import decisive
from django_qless.worker.log import is_final_failure, log_outcome
from django_qless.worker.retry_policy import retry_delay, should_retry
from django_qless.worker.sandbox import Sandboxes

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Client
    from django_qless.job_types.registry import JobType
    from django_qless.worker.environment import Environment

logger = logging.getLogger("django_qless.worker")

# Seconds for which a job of an unknown name is offered again: a deployment under way.
UNKNOWN_PATIENCE = 600

# Announced events by verb. A job that is handed back, or whose name is unknown here,
# has not ended.
ANNOUNCED = {
    "complete": "completed",
    "move": "completed",
    "fail": "failed",
    "retry": "retried",
}

NO_LIMIT = (0.0, 0.0)

# The delay of a job that is not to be tried again.
NO_RETRY = -1.0

# The delay of a job without retries left: the server decides, because it counts them.
NO_RETRY_LEFT = -2.0


class Execution:
    """Runs jobs in this process; several threads, or tasks, may share one."""

    def __init__(
        self,
        environment: Environment,
        client: Client,
        worker: str,
        sandboxes: Sandboxes | None = None,
        detach: Callable[[Reserved], Settlement] | None = None,
    ) -> None:
        """`detach` starts a detached job elsewhere; without it, it runs here."""
        self.environment = environment
        self.detach = detach
        self.client = client
        self.worker = worker
        self.sandboxes = sandboxes or Sandboxes()

    def perform(self, reserved: Reserved) -> Settlement:
        """Run the job and return its outcome. Raises nothing."""
        environment, current = self.environment, self.current(reserved)
        process, began = os.getpid(), time.monotonic()
        result: object = None
        error: BaseException | None = None
        try:
            job_type = environment.resolve(reserved.klass)
            if job_type is None:
                return self.unknown(reserved)
            if job_type.options.detached and self.detach:
                return self.detach(reserved)
            reserved = current.reserved = environment.opened(reserved)
            if environment.has_listeners("started"):
                environment.announce("started", current)
            result = environment.run(job_type, reserved, current)
            outcome = self.returned(job_type, reserved, current, result)
        except BaseException as raised:  # noqa: BLE001  all that a job raises ends it
            error = raised
            outcome = self.raised(reserved, raised)
        if process == os.getpid():  # not in a copy that the job has forked
            event = self.conclude(reserved, outcome, began, error)
            if reserved.token in self.sandboxes.in_use:
                self.sandboxes.remove(reserved)
            if event:
                details = details_of(event, outcome, result, error)
                environment.announce(event, current, **details)
        error = None  # its traceback refers to this frame
        return outcome

    async def aperform(self, reserved: Reserved) -> Settlement:
        """Asynchronous version of `perform`, which does not block the event loop."""
        environment, current = self.environment, self.current(reserved)
        process, began = os.getpid(), time.monotonic()
        result: object = None
        error: BaseException | None = None
        try:
            job_type = environment.resolve(reserved.klass)
            if job_type is None:
                return self.unknown(reserved)
            if job_type.options.detached and self.detach:
                return await asyncio.to_thread(self.detach, reserved)
            reserved = current.reserved = environment.opened(reserved)
            if environment.has_listeners("started"):
                await environment.aannounce("started", current)
            result = await environment.arun(job_type, reserved, current)
            outcome = self.returned(job_type, reserved, current, result)
        except BaseException as raised:  # noqa: BLE001  all that a job raises ends it
            error = raised
            outcome = self.raised(reserved, raised)
        if process == os.getpid():  # not in a copy that the job has forked
            event = self.conclude(reserved, outcome, began, error)
            if reserved.token in self.sandboxes.in_use:
                await asyncio.to_thread(self.sandboxes.remove, reserved)
            if event:
                details = details_of(event, outcome, result, error)
                await environment.aannounce(event, current, **details)
        error = None  # its traceback refers to this frame
        return outcome

    def conclude(
        self,
        reserved: Reserved,
        outcome: Settlement,
        began: float,
        error: BaseException | None,
    ) -> str:
        """Log an outcome; return the event that has listeners, "" for none."""
        if outcome.verb != "complete" or logger.isEnabledFor(logging.DEBUG):
            self.log(reserved, outcome, time.monotonic() - began, error)
        event = announced(reserved, outcome)
        return event if self.environment.has_listeners(event) else ""

    def unknown(self, reserved: Reserved) -> Settlement:
        """Return the outcome of a job that was not run, as its name is unknown."""
        outcome = outcome_of(reserved, "unknown", UNKNOWN_PATIENCE)
        self.log(reserved, outcome, 0.0)
        return outcome

    def log(
        self,
        reserved: Reserved,
        outcome: Settlement,
        seconds: float,
        error: BaseException | None = None,
    ) -> None:
        """Log the outcome of a run after so many seconds. Raises nothing.

        It happens in this process, which has the exception with its traceback.
        """
        try:
            hides = error is not None and self.hides(reserved)
            log_outcome(reserved, outcome, seconds, error, hides=hides)
        except Exception:  # noqa: BLE001  a handler of the project
            # It must not cost the job its outcome, and to log it would raise again.
            traceback.print_exc()

    def hides(self, reserved: Reserved) -> bool:
        """Return whether the job has, or may have, sensitive arguments."""
        try:
            job_type = self.environment.resolve(reserved.klass)
        except Exception:  # noqa: BLE001  the job failed with it
            return True
        return job_type is None or bool(job_type.options.sensitive)

    def hard_limit(self, reserved: Reserved) -> tuple[float, float]:
        """Return the seconds after which to kill the job's process, 0 for never.

        Also the seconds from then to its next attempt, below 0 for none. Raises nothing.
        """
        try:
            job_type = self.environment.resolve(reserved.klass)
            if job_type is None:
                return NO_LIMIT
            hard = self.environment.limits(job_type, reserved).hard
        except Exception:
            logger.exception("the limits of %s are unknown", reserved.klass)
            return NO_LIMIT
        if hard is None:
            return NO_LIMIT
        overrun = JobTimeout(hard)
        if not self.may_retry(reserved, overrun):
            return hard, NO_RETRY
        if reserved.remaining < 1:
            return hard, NO_RETRY_LEFT
        return hard, self.backoff(reserved, overrun)

    def current(self, reserved: Reserved) -> CurrentJob:
        """Return the job as its function and receivers of signals see it."""
        return CurrentJob(
            reserved,
            self.client,
            self.worker,
            sandboxes=self.sandboxes,
            runtime=self.environment,
        )

    def returned(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob, result: object
    ) -> Settlement:
        """Return the outcome of a job that returned: complete, or moved to another queue."""
        if current.moved_to is not None:
            return outcome_of(reserved, "move", *current.moved_to)
        data: tuple[str, ...] = ()
        if current.final_data is not None:
            data = (self.environment.sealed(current.final_data),)
        no_result: tuple[str | float, ...] = ("", 0, *data) if data else ()
        if result is None:
            return outcome_of(reserved, "complete", *no_result)
        try:
            ttl = job_type.options_for(reserved.context).result_ttl
            if not ttl:
                return outcome_of(reserved, "complete", *no_result)
            text = self.environment.encode_result(result)
            text = self.environment.sealed(text)
            if (size := len(text.encode())) > failure_report.MAX_BYTES:
                raise ValueError(
                    f"The result takes {size} bytes, more than {failure_report.MAX_BYTES}. "
                    "Keep it elsewhere and return a reference."
                )
        except Exception as error:  # noqa: BLE001  a hostile result
            # Another attempt would do the work again and return the same.
            why = error.detail if isinstance(error, QlessError) else str(error)
            message = f"The job has done its work, but its result cannot be kept: {why}"
            raise Fail(failure_report.BAD_RESULT, message) from None
        return outcome_of(reserved, "complete", text, ttl, *data)

    def shown(self, reserved: Reserved) -> CurrentJob:
        """Return a job that does not run here, opened if that is possible."""
        with suppress(Exception):
            reserved = self.environment.opened(reserved)
        return self.current(reserved)

    def raised(self, reserved: Reserved, error: BaseException) -> Settlement:
        """Return the outcome of a job that raised: as requested, or another attempt."""
        deciding = decisive(error)
        if isinstance(deciding, Fail):
            group = failure_report.group_of(deciding)
            message = failure_report.message_from_job(deciding, error)
            return outcome_of(reserved, "fail", group, message)
        if isinstance(deciding, Retry):
            return self.retry_as_requested(reserved, deciding, error)
        if isinstance(deciding, (ShuttingDown, JobLost)):
            # Not the job's fault. If it is lost, the server will refuse the outcome.
            return outcome_of(reserved, "release", 0)
        group = failure_report.group_of(error)
        message = failure_report.message_of(error)
        if not self.may_retry(reserved, error):
            return outcome_of(reserved, "fail", group, message)
        # The server counts retries: without one left the job fails.
        delay = self.backoff(reserved, deciding)
        return outcome_of(reserved, "retry", delay, group, message)

    def retry_as_requested(
        self, reserved: Reserved, retry: Retry, error: BaseException
    ) -> Settlement:
        """Return the outcome of a job that raised Retry; `error` is the group it was in."""
        delay = retry.delay
        if delay is not None and not is_delay(delay):
            logger.error("%s raised Retry(delay=%r)", reserved.klass, delay)
            delay = None
        if delay is None:
            delay = self.backoff(reserved, retry)
        group = retry.group
        if not group and retry.__cause__:
            group = failure_report.group_of(retry.__cause__)
        message = failure_report.message_from_job(retry, error)
        return outcome_of(reserved, "retry", delay, group, message)

    def may_retry(self, reserved: Reserved, error: BaseException) -> bool:
        """Return whether the job's options allow another attempt."""
        try:
            job_type = self.environment.resolve(reserved.klass)
            return job_type is None or should_retry(job_type.options, error)
        except Exception:
            logger.exception("retry_on or fail_on of %s failed", reserved.klass)
            return True

    def backoff(self, reserved: Reserved, error: BaseException) -> float:
        """Return the seconds of the job's backoff, or of the usual one if it fails."""
        attempt = reserved.retries - reserved.remaining + 1
        try:
            job_type = self.environment.resolve(reserved.klass)
            rule = job_type.options_for(reserved.context).backoff if job_type else None
            return retry_delay(rule, attempt, error)
        except Exception:
            logger.exception(
                "backoff of %s failed; the default is used", reserved.klass
            )
            return DEFAULT_BACKOFF(attempt)


def outcome_of(reserved: Reserved, verb: str, *args: str | float) -> Settlement:
    """Return an outcome of this job.

    The caller of `perform` knows how long the job was held before it ran; a job of an
    unknown name was not run.
    """
    held = None if verb == "unknown" else 0.0
    return Settlement(reserved.jid, reserved.token, verb, args, held)


def is_delay(value: object) -> bool:
    """Return whether this is a valid number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < math.inf


def announced(reserved: Reserved, outcome: Settlement) -> str:
    """Return the event to announce for this outcome, "" for none."""
    event = ANNOUNCED.get(outcome.verb, "")
    if event == "retried" and is_final_failure(reserved, outcome):
        return "failed"
    return event


def details_of(
    event: str, outcome: Settlement, result: object, error: BaseException | None
) -> dict[str, object]:
    """Return the details that are announced with a job."""
    if event == "completed":
        return {"result": result}
    group, message = outcome.args[-2:]
    details: dict[str, object] = {
        "exception": error,
        "group": group,
        "message": message,
    }
    if event == "retried":
        details["delay"] = outcome.args[0]
    return details
