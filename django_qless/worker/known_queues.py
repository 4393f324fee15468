"""The queues of a namespace as a worker knows them: names, weights and lags."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_qless.core.exceptions import QlessError
from django_qless.core.globs import is_glob, matches_any, pattern
from django_qless.worker.log import log_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_qless.core import Client, QueueSurvey

MAX_AGE = 1.0
"""Seconds for which known queues are fresh enough, unless a reader asks for less."""

LOOKUP_PATIENCE = 0.5
"""Seconds for which a lookup of the queues is tried; the last one serves as well."""


class KnownQueues:
    """Names, weights and lags of the namespace's queues, at most about a second old.

    They are looked up when they are read and too old. While the server cannot be
    reached, the last ones stay.
    """

    def __init__(self, client: Client, queues: Sequence[str] = ("*",)) -> None:
        """Look up these queues; with a glob among them, all that are known."""
        self._client = client
        self._asked = () if any(map(is_glob, queues)) else tuple(queues)
        self._entries: dict[str, QueueSurvey] = {}
        self._names: list[str] = []
        self._looked_up_at = float("-inf")
        #: Seconds that the last lookup took.
        self.cost = 0.0

    def refresh(self, max_age: float = MAX_AGE) -> bool:
        """Look them up if they are older than `max_age` seconds; return whether."""
        began = time.monotonic()
        if began - self._looked_up_at < max_age:
            return False
        self._looked_up_at = began
        try:
            surveys = self._client.survey(self._asked)
        except QlessError as error:
            log_event(logging.DEBUG, "the queues could not be looked up", error=error)
        else:
            self._entries = {survey.name: survey for survey in surveys}
            self._names = sorted(self._entries)
        self.cost = time.monotonic() - began
        return True

    def expand(self, wanted: Iterable[str], exclude: Sequence[str] = ()) -> list[str]:
        """Return the queues that names and globs match, as the server would.

        Names match themselves, known or not; the queues of a glob come in the order of
        their names. None comes twice.
        """
        found: dict[str, None] = {}
        for name in wanted:
            if is_glob(name):
                matches = pattern(name)
                found.update((k, None) for k in self._names if matches.fullmatch(k))
            else:
                found[name] = None
        return [name for name in found if not matches_any(name, exclude)]

    def weight(self, queue: str) -> float:
        """Return the configured weight of the queue, else 1."""
        entry = self._entries.get(queue)
        return 1.0 if entry is None else entry.weight

    def lag(self, queue: str) -> float:
        """Return for how many seconds the queue's oldest ready job had waited."""
        entry = self._entries.get(queue)
        return 0.0 if entry is None else entry.lag
