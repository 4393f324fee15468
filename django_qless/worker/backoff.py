"""How long to wait between a failure and the next attempt."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.options import Backoff

LONGEST = 3600.0


def exponential(attempt: int) -> float:
    """Return 2, 4, 8… seconds, a little more or less, and at most an hour.

    Jobs that failed together do not come back together.
    """
    return min(2.0 ** min(attempt, 32), LONGEST) * random.uniform(0.75, 1.25)


def delay_after(backoff: Backoff, attempt: int, error: BaseException) -> float:
    """Return the seconds to wait after this attempt, counted from 1.

    `backoff` is a number, a list whose last item serves all later attempts, a function
    of attempt and exception, or None for exponential. Raises what the function raises.
    """
    if backoff is None:
        return exponential(attempt)
    if isinstance(backoff, Callable):  # type: ignore[arg-type]
        chosen = backoff(attempt, error)  # type: ignore[operator]
    elif isinstance(backoff, Sequence):
        chosen = backoff[min(attempt, len(backoff)) - 1]
    else:
        chosen = backoff
    seconds = chosen.total_seconds() if isinstance(chosen, timedelta) else chosen
    return max(0.0, float(seconds))
