"""The queues of a namespace as a worker knows them: names, weights and lags."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_qless.core.globs import is_glob, matches_any, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_qless.core import QueueSurvey

MAX_AGE = 1.0
"""Seconds for which known queues are fresh enough, unless a reader asks for less."""

LOOKUP_SHARE = 0.05
"""The share of the time that frequent lookups may take."""


class KnownQueues:
    """What the last lookup has found; without one all weights and lags are equal.

    The owner of a connection looks the queues up (`Client.survey`) when they are stale,
    and stores the answer here.
    """

    def __init__(self, surveys: Iterable[QueueSurvey] = ()) -> None:
        self._surveys = {survey.name: survey for survey in surveys}
        self._looked_up_at = float("-inf")
        self._cost = 0.0

    def is_stale(self, max_age: float) -> bool:
        """Return whether they are older than this, but not more often than is cheap."""
        max_age = min(MAX_AGE, max(max_age, self._cost / LOOKUP_SHARE))
        return time.monotonic() - self._looked_up_at >= max_age

    def update(self, surveys: Iterable[QueueSurvey] | None, began: float) -> None:
        """Store what a lookup that `began` then (monotonic) has found.

        None: the server could not be asked. What was known stays.
        """
        self._looked_up_at = time.monotonic()
        self._cost = self._looked_up_at - began
        if surveys is not None:
            self._surveys = {survey.name: survey for survey in surveys}

    def expand(self, wanted: Iterable[str], exclude: Sequence[str] = ()) -> list[str]:
        """Return the queues that names and globs match, as the server would.

        Names match themselves, known or not; the queues of a glob come in the order of
        their names. None comes twice.
        """
        found: dict[str, None] = {}
        for name in wanted:
            if is_glob(name):
                matches = pattern(name).fullmatch
                found.update(dict.fromkeys(sorted(filter(matches, self._surveys))))
            else:
                found[name] = None
        return [name for name in found if not matches_any(name, exclude)]

    def weight(self, queue: str) -> float:
        """Return the configured weight of the queue, else 1."""
        survey = self._surveys.get(queue)
        return 1.0 if survey is None else survey.weight

    def lag(self, queue: str) -> float:
        """Return for how many seconds the queue's oldest ready job had waited."""
        survey = self._surveys.get(queue)
        return 0.0 if survey is None else survey.lag
