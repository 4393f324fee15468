"""What is known of the queues: their names, weights and lags, looked up now and then."""

from __future__ import annotations

import logging
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from django_qless.core.exceptions import QlessError
from django_qless.worker.log import event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_qless.core import Client, QueueSurvey

FRESH = 1.0
"""Seconds for which a look is good enough, unless a reader asks for a newer one."""

USUAL_WEIGHT = 1.0


class QueueBook:
    """A view of the namespace's queues that is at most about a second old.

    It asks when it is read and too old, by itself never. While the server cannot be
    reached, the last view stays.
    """

    def __init__(self, client: Client, queues: Sequence[str] = ("*",)) -> None:
        """Look up these queues; with a glob among them, all that are known."""
        self._client = client
        self._asked = () if any(map(is_glob, queues)) else tuple(queues)
        self._entries: dict[str, QueueSurvey] = {}
        self._names: list[str] = []
        self._looked = float("-inf")
        #: How long the last look took, in seconds.
        self.cost = 0.0

    def refresh(self, at_most: float = FRESH) -> bool:
        """Look again if the view is older than `at_most` seconds; return whether."""
        began = time.monotonic()
        if began - self._looked < at_most:
            return False
        self._looked = began
        try:
            surveys = self._client.survey(self._asked)
        except QlessError as error:
            event(logging.DEBUG, "the queues could not be looked up", error=error)
        else:
            self._entries = {survey.name: survey for survey in surveys}
            self._names = sorted(self._entries)
        self.cost = time.monotonic() - began
        return True

    def expand(self, wanted: Iterable[str], exclude: Sequence[str] = ()) -> list[str]:
        """Return the queues that names and globs stand for, as the server would.

        Names stand for themselves, known or not; the queues of a glob come in the order
        of their names. None comes twice.
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
        """Return what was set as the queue's weight, else 1."""
        entry = self._entries.get(queue)
        return USUAL_WEIGHT if entry is None else entry.weight

    def lag(self, queue: str) -> float:
        """Return for how many seconds the queue's oldest ready job had waited."""
        entry = self._entries.get(queue)
        return 0.0 if entry is None else entry.lag


def is_glob(name: str) -> bool:
    """Return whether this stands for any number of queues."""
    return "*" in name or "?" in name


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether one of these names and globs stands for this queue."""
    return any(pattern(glob).fullmatch(name) for glob in globs)


@lru_cache(maxsize=256)
def pattern(glob: str) -> re.Pattern[str]:
    """Return a glob with * and ? as a regular expression."""
    escaped = re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(escaped, re.DOTALL)
