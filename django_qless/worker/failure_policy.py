"""The policy of failure: what becomes of a job that has raised an exception."""

from __future__ import annotations

import functools
import logging
import math
import pkgutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django_qless.exceptions import Fail, JobLost, JobTimeout, Retry, ShuttingDown
from django_qless.job_types.backoff import DEFAULT_BACKOFF
from django_qless.worker import failure_report
from django_qless.worker.exception_groups import decisive, leaves_of
from django_qless.worker.outcome import (
    EXHAUSTED,
    FAIL,
    RELEASE,
    RETRY,
    UNKNOWN,
    Kind,
    Outcome,
)

if TYPE_CHECKING:
    from django_qless.core import Reserved
    from django_qless.job_types.option_types import Backoff
    from django_qless.job_types.options import Options
    from django_qless.runtime.environment import DjangoEnvironment

logger = logging.getLogger("django_qless.worker")

# Seconds for which a job of an unknown name is offered again: a deployment under way.
UNKNOWN_PATIENCE = 600

NO_LIMIT = (0.0, 0.0)

# The delay of a job that is not to be tried again.
NO_RETRY = -1.0

# The delay of a job without retries left: the server decides, because it counts them.
NO_RETRY_LEFT = -2.0


class UnknownName(Exception):
    """Ends a run whose job type is unknown here."""


class FailurePolicy:
    """Decides by the options of a job's type. Its methods raise nothing."""

    def __init__(self, environment: DjangoEnvironment) -> None:
        self.environment = environment

    def raised(self, reserved: Reserved, error: BaseException) -> Outcome:
        """Return the outcome of a job that raised: as requested, or another attempt."""
        if isinstance(error, UnknownName):
            return Outcome(UNKNOWN, delay=UNKNOWN_PATIENCE)
        deciding = decisive(error)
        if isinstance(deciding, (ShuttingDown, JobLost)):
            # Not the job's fault. If it is lost, the server will refuse the outcome.
            return Outcome(RELEASE, exception=error)
        failure = Outcome(FAIL, exception=error)
        if isinstance(deciding, Fail):
            return failure._replace(
                group=failure_report.group_of(deciding),
                message=failure_report.message_from_job(deciding, error),
            )
        if isinstance(deciding, Retry):
            group = deciding.group
            if not group and deciding.__cause__:
                group = failure_report.group_of(deciding.__cause__)
            return failure._replace(
                kind=retry_kind(reserved),
                group=group,
                message=failure_report.message_from_job(deciding, error),
                delay=self.requested_delay(reserved, deciding),
            )
        failure = failure._replace(
            group=failure_report.group_of(error),
            message=failure_report.message_of(error),
        )
        if not self.may_retry(reserved, error):
            return failure
        delay = self.backoff(reserved, deciding)
        return failure._replace(kind=retry_kind(reserved), delay=delay)

    def requested_delay(self, reserved: Reserved, retry: Retry) -> float:
        """Return the delay that a job asks for, its backoff if that is none."""
        if retry.delay is not None and is_delay(retry.delay):
            return retry.delay
        if retry.delay is not None:
            logger.error("%s raised Retry(delay=%r)", reserved.klass, retry.delay)
        return self.backoff(reserved, retry)

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


def retry_kind(reserved: Reserved) -> Kind:
    """Return the kind of an outcome after which the job is tried again, if it may be."""
    return RETRY if reserved.remaining >= 1 else EXHAUSTED


def is_delay(value: object) -> bool:
    """Return whether this is a valid number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < math.inf


def should_retry(options: Options, error: BaseException) -> bool:
    """Return whether a job with these options is tried again after this exception.

    `fail_on` takes precedence. Subclasses of the named exceptions count. Of a group one
    in `fail_on` is enough, and all have to be in `retry_on`.
    """
    leaves = leaves_of(error)
    if options.fail_on and any(is_any_of(e, options.fail_on) for e in (error, *leaves)):
        return False
    if not options.retry_on or is_any_of(error, options.retry_on):
        return True
    return all(is_any_of(leaf, options.retry_on) for leaf in leaves)


def is_any_of(
    error: BaseException, exceptions: tuple[type[BaseException] | str, ...]
) -> bool:
    """Return whether this is an instance of one of these classes or dotted names."""
    for each in exceptions:
        found = import_exception(each) if isinstance(each, str) else each
        if found is None:
            # It cannot be imported; its name is all there is.
            kinds = type(error).__mro__
            if any(f"{kind.__module__}.{kind.__qualname__}" == each for kind in kinds):
                return True
        elif isinstance(error, found):
            return True
    return False


@functools.cache
def import_exception(dotted: str) -> type[BaseException] | None:
    """Return the exception of this dotted name; log and return None without one."""
    try:
        found = pkgutil.resolve_name(dotted)
    except Exception:
        logger.exception("the exception %s cannot be imported", dotted)
        return None
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    logger.error("%s is no exception", dotted)
    return None


def retry_delay(backoff: Backoff, attempt: int, error: BaseException) -> float:
    """Return the seconds to wait after this attempt, counted from 1.

    `backoff` is a number, a list whose last item serves all later attempts, a function
    of attempt and exception (`exponential()` makes one), or None for the usual one.
    Raises what the function raises.
    """
    if backoff is None:
        return DEFAULT_BACKOFF(attempt)
    if isinstance(backoff, Callable):  # type: ignore[arg-type]
        chosen = backoff(attempt, error)  # type: ignore[operator]
    elif isinstance(backoff, Sequence):
        chosen = backoff[min(attempt, len(backoff)) - 1]
    else:
        chosen = backoff
    seconds = chosen.total_seconds() if isinstance(chosen, timedelta) else chosen
    return max(0.0, float(seconds))
