"""How long to wait between a failure and the next attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django_qless.options.backoff import USUAL

if TYPE_CHECKING:
    from django_qless.options import Backoff


def delay_after(backoff: Backoff, attempt: int, error: BaseException) -> float:
    """Return the seconds to wait after this attempt, counted from 1.

    `backoff` is a number, a list whose last item serves all later attempts, a function
    of attempt and exception (`exponential()` makes one), or None for the usual one.
    Raises what the function raises.
    """
    if backoff is None:
        return USUAL(attempt)
    if isinstance(backoff, Callable):  # type: ignore[arg-type]
        chosen = backoff(attempt, error)  # type: ignore[operator]
    elif isinstance(backoff, Sequence):
        chosen = backoff[min(attempt, len(backoff)) - 1]
    else:
        chosen = backoff
    seconds = chosen.total_seconds() if isinstance(chosen, timedelta) else chosen
    return max(0.0, float(seconds))
