"""Backoff: the wait between a failure and the next attempt, `@job(backoff=…)`.

    backoff=60                                    always a minute
    backoff=[10, 60, 600]                         the last serves all later attempts
    backoff=exponential(base=5, maximum=3600)     5, 10, 20 … seconds, a little scattered
    backoff=lambda attempt, error: …              seconds or a timedelta

Needs no Django.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_qless.core.arguments import is_finite
from django_qless.exceptions import InvalidOption


@dataclass(frozen=True, slots=True)
class Exponential:
    """A wait that grows by a factor with each attempt, made by `exponential()`."""

    base: float
    factor: float
    maximum: float
    jitter: float

    def __call__(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the seconds to wait after this attempt, counted from 1."""
        try:
            seconds = self.base * float(self.factor) ** (attempt - 1)
        except OverflowError:
            seconds = self.maximum if self.base else 0.0
        highest = min(seconds * (1 + self.jitter), self.maximum)
        lowest = min(seconds, self.maximum) * (1 - self.jitter)
        return random.uniform(lowest, highest)


def exponential(
    base: float | timedelta = 2,
    *,
    factor: float = 2,
    maximum: float | timedelta = 3600,
    jitter: float = 0.25,
) -> Exponential:
    """Return a backoff: `base` seconds, and `factor` times as long after each attempt.

    Never longer than `maximum`. `jitter` scatters each by up to this part of it, 0 to 1,
    so that jobs that failed together do not come back together. Raises InvalidOption.
    """
    first = _number("base", base, 0)
    longest = _number("maximum", maximum, 0)
    if first > longest:
        raise InvalidOption(
            f"exponential: base={first:g} exceeds maximum={longest:g}: lower the base, "
            "or raise the maximum.",
            enqueues=False,
        )
    scatter = _number("jitter", jitter, 0)
    if scatter > 1:
        raise InvalidOption(
            f"exponential: jitter must be between 0 and 1, not {jitter!r}: 0.25 makes "
            "each wait up to a quarter shorter or longer.",
            enqueues=False,
        )
    return Exponential(first, _number("factor", factor, 1), longest, scatter)


def _number(name: str, value: Any, least: float) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidOption(
            f"exponential: {name} must be a number, not {value!r}.", enqueues=False
        )
    if not is_finite(value) or not least <= value <= 1e10:
        raise InvalidOption(
            f"exponential: {name} must be a finite number from {least:g}, not {value!r}.",
            enqueues=False,
        )
    return value


#: The backoff of jobs without one: 2, 4, 8 … seconds, at most an hour.
DEFAULT_BACKOFF = exponential()


def entity_backoff(attempt: int, error: BaseException) -> float:
    """Return the seconds after which an entity runs again, by the number of failures.

    With the retry count, which is 0 after the first failure:
    `count ** 4 + 15 + random(30) * (count + 1)`.
    """
    count = attempt - 1
    return count**4 + 15 + random.randrange(30) * (count + 1)
