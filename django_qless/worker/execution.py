"""How one job is run, and what becomes of it. The policy of failure is here."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core import Reserved, Settlement
from django_qless.current import CurrentJob
from django_qless.exceptions import Fail, JobLost, JobTimeout, Retry, ShuttingDown
from django_qless.options.backoff import USUAL
from django_qless.worker import failures, telling
from django_qless.worker.backoff import delay_after
from django_qless.worker.retrying import is_worth_it
from django_qless.worker.sandbox import Sandboxes

if TYPE_CHECKING:
    from django_qless.core import Client
    from django_qless.registry import JobType
    from django_qless.worker.environment import Environment

logger = logging.getLogger("django_qless.worker")

# Seconds for which a job of an unknown name is offered again: a deployment under way.
UNKNOWN_PATIENCE = 600

# What is announced of a run that ended with this verb. A job that is handed back, or
# of which nothing is known here, has not ended.
ANNOUNCED = {
    "complete": "completed",
    "move": "completed",
    "fail": "failed",
    "retry": "retried",
}

NO_LIMIT = (0.0, 0.0)

# The delay of a job that is not to be tried again.
NO_RETRY = -1.0

# That of a job that has used up its retries: it is put to the server, which counts.
NO_RETRY_LEFT = -2.0


class Obituary(NamedTuple):
    """A run whose process was killed, as the parent knows it."""

    jid: str
    token: str
    group: str
    """The failure group it was settled with; "" if the job was lost to others."""
    message: str
    delay: float = 0.0
    """Seconds before the next attempt, if there is one."""


class Execution:
    """Runs jobs in this process; several threads, or tasks, may share one."""

    def __init__(
        self,
        environment: Environment,
        client: Client,
        worker: str,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        self.environment = environment
        self.client = client
        self.worker = worker
        self.sandboxes = sandboxes or Sandboxes(worker)

    def perform(self, reserved: Reserved) -> Settlement:
        """Run the job and return how it is to be settled. Raises nothing."""
        environment, process = self.environment, os.getpid()
        began, current = time.monotonic(), self.current(reserved)
        job_type: JobType | None = None
        result: object = None
        error: BaseException | None = None
        try:
            job_type = environment.resolve(reserved.klass)
            if job_type is None:
                return self.unknown(reserved)
            if environment.hears("started"):
                environment.announce("started", current)
            result = environment.run(job_type, reserved, current)
            outcome = self.returned(job_type, reserved, current, result)
        except BaseException as raised:  # noqa: BLE001  whatever the job raises is its end
            error = raised
            outcome = self.raised(reserved, raised)
        what, told = announced(reserved, outcome), telling.is_told(outcome)
        if told or self.sandboxes.in_use or environment.hears(what):
            if process != os.getpid():
                return outcome  # the job has forked, and this is the copy
            if told:
                self.tell(reserved, outcome, time.monotonic() - began, error)
            self.sandboxes.remove(reserved)
            if environment.hears(what):
                details = details_of(what, outcome, result, error)
                environment.announce(what, current, **details)
        error = None  # its traceback knows this frame
        return outcome

    async def aperform(self, reserved: Reserved) -> Settlement:
        """Do the same in a running event loop, which goes on meanwhile."""
        environment, process = self.environment, os.getpid()
        began, current = time.monotonic(), self.current(reserved)
        job_type: JobType | None = None
        result: object = None
        error: BaseException | None = None
        try:
            job_type = environment.resolve(reserved.klass)
            if job_type is None:
                return self.unknown(reserved)
            if environment.hears("started"):
                await environment.aannounce("started", current)
            result = await environment.arun(job_type, reserved, current)
            outcome = self.returned(job_type, reserved, current, result)
        except BaseException as raised:  # noqa: BLE001  whatever the job raises is its end
            error = raised
            outcome = self.raised(reserved, raised)
        what, told = announced(reserved, outcome), telling.is_told(outcome)
        if told or self.sandboxes.in_use or environment.hears(what):
            if process != os.getpid():
                return outcome
            if told:
                self.tell(reserved, outcome, time.monotonic() - began, error)
            if reserved.token in self.sandboxes.in_use:
                await asyncio.to_thread(self.sandboxes.remove, reserved)
            if environment.hears(what):
                details = details_of(what, outcome, result, error)
                await environment.aannounce(what, current, **details)
        error = None
        return outcome

    def unknown(self, reserved: Reserved) -> Settlement:
        """Settle a job that was not run, for its name is unknown here."""
        outcome = settled(reserved, "unknown", UNKNOWN_PATIENCE)
        self.tell(reserved, outcome, 0.0)
        return outcome

    def tell(
        self,
        reserved: Reserved,
        outcome: Settlement,
        seconds: float,
        error: BaseException | None = None,
    ) -> None:
        """Log how a run ended after so many seconds. Raises nothing.

        Here, where the exception is: its traceback goes into the log.
        """
        try:
            hides = error is not None and self.hides(reserved)
            telling.tell(reserved, outcome, seconds, error, hides=hides)
        except Exception:  # noqa: BLE001  a handler of the project's own
            # It must not cost the job its end, and to log it would raise again.
            traceback.print_exc()

    def hides(self, reserved: Reserved) -> bool:
        """Return whether the job has, or may have, values that are not to be seen."""
        try:
            job_type = self.environment.resolve(reserved.klass)
        except Exception:  # noqa: BLE001  that is what the job failed of
            return True
        return job_type is None or bool(job_type.options.sensitive)

    def limit(self, reserved: Reserved) -> tuple[float, float]:
        """Return the seconds after which the job's process is to be killed, 0 for never.

        And, for then, the seconds before its next attempt, below 0 for none. Raises
        nothing.
        """
        try:
            job_type = self.environment.resolve(reserved.klass)
            if job_type is None:
                return NO_LIMIT
            hard = self.environment.limits(job_type, reserved).hard
        except Exception:
            logger.exception("no limits are known for %s", reserved.klass)
            return NO_LIMIT
        if hard is None:
            return NO_LIMIT
        overrun = JobTimeout(hard)
        if not self.may_retry(reserved, overrun):
            return hard, NO_RETRY
        if reserved.remaining < 1:
            return hard, NO_RETRY_LEFT
        return hard, self.backoff(reserved, overrun)

    def lost(self, reserved: Reserved) -> None:
        """Announce that the job was taken away, or that the server refused its end."""
        if self.environment.hears("lost"):
            self.environment.announce("lost", self.current(reserved))

    def announce_end(self, obituary: Obituary) -> None:
        """Announce what the process that ran the job cannot announce any more.

        For a child, never for the parent: users' code listens. The server is asked what
        became of the job, but only if anybody listens. Raises nothing.
        """
        hears = self.environment.hears
        about = ("failed", "retried") if obituary.group else ("lost",)
        if not any(map(hears, about)):
            return
        try:
            job = self.client.get(obituary.jid)
            if job is None or job.canceled:
                return
            what = about[0]
            if obituary.group and job.state != "failed":
                what = "retried"
            reserved = Reserved(
                *(job.jid, job.queue, job.klass, job.data, obituary.token),
                *(job.retries, job.remaining, job.priority),
                json.dumps(job.tags),
                json.dumps(job.context) if job.context else "",
                job.expires,
            )
        except Exception:
            logger.exception("the end of job %s is not announced", obituary.jid)
            return
        if hears(what):
            details: dict[str, object] = {}
            if what != "lost":
                details |= {"exception": None, "group": obituary.group}
                details["message"] = obituary.message
            if what == "retried":
                details["delay"] = obituary.delay
            self.environment.announce(what, self.current(reserved), **details)

    def current(self, reserved: Reserved) -> CurrentJob:
        """Return the job as its function, and who listens, gets to see it."""
        return CurrentJob(
            *(reserved, self.client, self.worker, self.sandboxes, self.environment)
        )

    def returned(
        self, job_type: JobType, reserved: Reserved, current: CurrentJob, result: object
    ) -> Settlement:
        """Settle a job that returned: it is complete, or goes on in another queue."""
        if current.moved_to is not None:
            return settled(reserved, "move", *current.moved_to)
        left = () if current.data_left is None else (current.data_left,)
        nothing = ("", 0, *left) if left else ()
        if result is None:
            return settled(reserved, "complete", *nothing)
        try:
            ttl = job_type.options_for(reserved.context).result_ttl
            if not ttl:
                return settled(reserved, "complete", *nothing)
            text = self.environment.encode_result(result)
            if (size := len(text.encode())) > failures.MOST_BYTES:
                raise ValueError(
                    f"The result takes {size} bytes, more than {failures.MOST_BYTES}. "
                    "Keep it elsewhere and return a reference."
                )
        except Exception as error:
            # Another attempt would do the work again and return the same.
            words = "The job has done its work, but its result cannot be kept."
            raise Fail(failures.BAD_RESULT, words) from error
        return settled(reserved, "complete", text, ttl, *left)

    def raised(self, reserved: Reserved, error: BaseException) -> Settlement:
        """Settle a job that raised: what the exception says, or another attempt."""
        if isinstance(error, Fail):
            group, message = failures.group_of(error), failures.wish_of(error)
            return settled(reserved, "fail", group, message)
        if isinstance(error, Retry):
            return self.as_wished(reserved, error)
        if isinstance(error, (ShuttingDown, JobLost)):
            # Not the job's fault. A job that is lost is not ours to settle, as the
            # server will say.
            return settled(reserved, "release", 0)
        group, message = failures.group_of(error), failures.message_of(error)
        if not self.may_retry(reserved, error):
            return settled(reserved, "fail", group, message)
        # The server counts: without a retry left the job fails.
        delay = self.backoff(reserved, error)
        return settled(reserved, "retry", delay, group, message)

    def as_wished(self, reserved: Reserved, retry: Retry) -> Settlement:
        """Give the job another attempt, when and why it says itself."""
        delay = retry.delay
        if delay is not None and not is_delay(delay):
            logger.error("%s raised Retry(delay=%r)", reserved.klass, delay)
            delay = None
        if delay is None:
            delay = self.backoff(reserved, retry)
        group = retry.group
        if not group and retry.__cause__:
            group = failures.group_of(retry.__cause__)
        return settled(reserved, "retry", delay, group, failures.wish_of(retry))

    def may_retry(self, reserved: Reserved, error: BaseException) -> bool:
        """Return whether the job itself has nothing against another attempt."""
        try:
            job_type = self.environment.resolve(reserved.klass)
            return job_type is None or is_worth_it(job_type.options, error)
        except Exception:
            logger.exception("retry_on or fail_on of %s failed", reserved.klass)
            return True

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
            return USUAL(attempt)


def settled(reserved: Reserved, verb: str, *args: str | float) -> Settlement:
    """Return the settlement of this job by this verb.

    Its run has begun, and whoever has it performed knows how long it was held before; a
    job of an unknown name was not run.
    """
    held = None if verb == "unknown" else 0.0
    return Settlement(reserved.jid, reserved.token, verb, args, held)


def is_delay(value: object) -> bool:
    """Return whether this is a number of seconds that one can wait."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < math.inf


def announced(reserved: Reserved, outcome: Settlement) -> str:
    """Return what is announced of a run with this outcome, "" for nothing."""
    what = ANNOUNCED.get(outcome.verb, "")
    return (
        "failed" if what == "retried" and telling.is_final(reserved, outcome) else what
    )


def details_of(
    what: str, outcome: Settlement, result: object, error: BaseException | None
) -> dict[str, object]:
    """Return what is announced of a run beside the job."""
    if what == "completed":
        return {"result": result}
    group, message = outcome.args[-2:]
    details: dict[str, object] = {
        "exception": error,
        "group": group,
        "message": message,
    }
    if what == "retried":
        details["delay"] = outcome.args[0]
    return details
