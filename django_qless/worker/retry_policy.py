"""Deciding whether a failed job is tried again, and after which delay."""

from __future__ import annotations

import functools
import logging
import pkgutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django_qless.job_types.backoff import DEFAULT_BACKOFF
from django_qless.worker.exception_groups import leaves_of

if TYPE_CHECKING:
    from django_qless.job_types.option_types import Backoff
    from django_qless.job_types.options import Options

logger = logging.getLogger("django_qless.worker")


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
