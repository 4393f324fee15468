"""Whether a failure is worth another attempt, by what the job says of exceptions."""

from __future__ import annotations

import functools
import logging
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.options import Options

logger = logging.getLogger("django_qless.worker")


def is_worth_it(options: Options, error: BaseException) -> bool:
    """Return whether a job with these options is to be run again after this exception.

    `fail_on` has the first word. Children of the exceptions that they name count.
    """
    if options.fail_on and is_one_of(error, options.fail_on):
        return False
    return not options.retry_on or is_one_of(error, options.retry_on)


def is_one_of(
    error: BaseException, exceptions: tuple[type[BaseException] | str, ...]
) -> bool:
    """Return whether this is an instance of one of these classes or dotted names."""
    for each in exceptions:
        found = class_of(each) if isinstance(each, str) else each
        if found is None:
            # It cannot be imported; its name is all there is.
            if any(_name(kind) == each for kind in type(error).__mro__):
                return True
        elif isinstance(error, found):
            return True
    return False


@functools.cache
def class_of(dotted: str) -> type[BaseException] | None:
    """Return the exception of this dotted name; None, and a log line, if there is none."""
    try:
        found = pkgutil.resolve_name(dotted)
    except Exception:
        logger.exception("the exception %s cannot be imported", dotted)
        return None
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    logger.error("%s is no exception", dotted)
    return None


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
