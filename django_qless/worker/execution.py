"""How one job is run, and what becomes of it. The policy of failure is here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_qless.core import Settlement
from django_qless.current import CurrentJob
from django_qless.exceptions import Fail, Retry
from django_qless.worker import failures
from django_qless.worker.backoff import delay_after, exponential

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved
    from django_qless.registry import JobType
    from django_qless.worker.environment import Environment

logger = logging.getLogger("django_qless.worker")

# Seconds for which a job of an unknown name is offered again: a deployment under way.
UNKNOWN_PATIENCE = 600


class Execution:
    """Runs jobs in this process, one after the other."""

    def __init__(self, environment: Environment, client: Client, worker: str) -> None:
        self.environment = environment
        self.client = client
        self.worker = worker

    def perform(self, reserved: Reserved) -> Settlement:
        """Run the job and return how it is to be settled. Raises nothing."""
        try:
            job_type = self.environment.resolve(reserved.klass)
            if job_type is None:
                return settled(reserved, "unknown", UNKNOWN_PATIENCE)
            current = CurrentJob(reserved, self.client, self.worker)
            result = self.environment.run(job_type, reserved, current)
        except Fail as fail:
            return failed(reserved, fail.group, failures.wish_of(fail))
        except Retry as retry:
            return self.as_wished(reserved, retry)
        except BaseException as error:  # noqa: BLE001  SystemExit is a failure, too
            return self.again(reserved, error)
        try:
            return self.done(job_type, reserved, current, result)
        except Exception as error:  # noqa: BLE001  the result is the user's, too
            # Another attempt would do the work again and return the same.
            return failed(reserved, failures.BAD_RESULT, failures.message_of(error))

    def done(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob, result: object
    ) -> Settlement:
        """Settle a job that returned: it is complete, or goes on in another queue."""
        if current.moved_to is not None:
            return settled(reserved, "move", *current.moved_to)
        ttl = 0
        if result is not None:
            ttl = job_type.options_for(reserved.context).result_ttl
        if not ttl:
            return settled(reserved, "complete")
        text = self.environment.encode_result(result)
        if (size := len(text.encode())) > failures.MOST_BYTES:
            raise ValueError(
                f"The result takes {size} bytes, more than {failures.MOST_BYTES}. "
                "Keep it elsewhere and return a reference."
            )
        return settled(reserved, "complete", text, ttl)

    def again(self, reserved: Reserved, error: BaseException) -> Settlement:
        """Give the job another attempt if it has one left; the server counts."""
        delay = self.backoff(reserved, error)
        group, message = failures.group_of(error), failures.message_of(error)
        return settled(reserved, "retry", delay, group, message)

    def as_wished(self, reserved: Reserved, retry: Retry) -> Settlement:
        """Give the job another attempt, when and why it says itself."""
        delay = retry.delay
        if delay is None:
            delay = self.backoff(reserved, retry)
        group = retry.group
        if not group and retry.__cause__:
            group = failures.group_of(retry.__cause__)
        return settled(reserved, "retry", delay, group, failures.wish_of(retry))

    def backoff(self, reserved: Reserved, error: BaseException) -> float:
        """Return the seconds to wait, by the job's own rule if that works."""
        attempt = reserved.retries - reserved.remaining + 1
        try:
            job_type = self.environment.resolve(reserved.klass)
            rule = job_type.options_for(reserved.context).backoff if job_type else None
            return delay_after(rule, attempt, error)
        except Exception:
            logger.exception(
                "backoff of %s failed; the usual one serves", reserved.klass
            )
            return exponential(attempt)


def settled(reserved: Reserved, verb: str, *args: str | float) -> Settlement:
    """Return the settlement of this job by this verb."""
    return Settlement(reserved.jid, reserved.token, verb, args)


def failed(reserved: Reserved, group: str, message: str) -> Settlement:
    """Return the settlement of a job that must not be tried again."""
    return settled(reserved, "fail", group, failures.fitting(message))
