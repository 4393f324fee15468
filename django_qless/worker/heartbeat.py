"""Keeping the locks of running jobs, and showing that the worker lives."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING

from django_qless.core import Beat
from django_qless.worker.log import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_qless.core import Client

LONGEST_PACE = 10.0
"""Seconds: a worker gives a sign of life at least as often, jobs or not."""
SHORTEST_PACE = 0.05
BEATS_PER_LOCK = 3
AFTER_TROUBLE = 1.0
"""Seconds until the next try, when a beat did not reach the server."""
AFTER_HINT = 0.05
"""Seconds between two beats at least, however many hints come."""


def pace_for(lock: float) -> float:
    """Return the longest time between two beats for a lock of this many seconds."""
    return min(LONGEST_PACE, max(SHORTEST_PACE, lock / BEATS_PER_LOCK))


def held_by(client: Client, worker: str) -> dict[str, str]:
    """Return the tokens of the jobs that a worker holds by the server's records, by jid."""
    jids = [jid for part in client.worker_jobs(worker) for jid in part]
    return {job.jid: job.token for job in client.multiget(jids) if job.token}


class Heartbeat:
    """Says when to beat, and beats for all jobs of a worker in one call."""

    def __init__(self, client: Client, worker: str, say: Callable[[], str]) -> None:
        """`say` returns what the worker says of itself: a JSON object."""
        self._client = client
        self._worker = worker
        self._say = say
        self._last = float("-inf")
        self._failing = False
        self.pace = LONGEST_PACE
        self.due = time.monotonic()
        #: When the server last answered (monotonic), 0.0 before it ever did.
        self.good = 0.0

    @property
    def is_failing(self) -> bool:
        """Whether the last beat did not reach the server."""
        return self._failing

    def hint(self) -> None:
        """Beat as soon as is decent: the reply will say something new."""
        self.due = min(self.due, max(time.monotonic(), self._last + AFTER_HINT))

    def hurry(self, lock: float) -> None:
        """Beat more often if a lock of this length asks for it."""
        pace = pace_for(lock)
        if pace < self.pace:
            self.pace = pace
            self.due = min(self.due, time.monotonic() + pace)

    def relax(self, locks: Iterable[float]) -> None:
        """Choose the pace anew for these locks."""
        self.pace = min((pace_for(lock) for lock in locks), default=LONGEST_PACE)

    def held(self) -> dict[str, str]:
        """Return the tokens of all jobs that this worker holds, by jid.

        Empty if the server cannot be reached: the next heartbeat asks again.
        """
        try:
            return held_by(self._client, self._worker)
        except Exception as error:  # noqa: BLE001
            event(logging.DEBUG, "held jobs unknown", error=error)
            return {}

    def beat(self, held: Sequence[tuple[str, str, float | None]]) -> Beat:
        """Renew the locks on these (jid, token, held); return what is lost, and orders.

        Raises nothing: a beat that fails is tried again soon.
        """
        try:
            answer = self._client.beat(self._worker, self._say(), held)
        except Exception as error:  # noqa: BLE001  whatever it is, the next may succeed
            pause = min(AFTER_TROUBLE, self.pace)
            level = logging.DEBUG if self._failing else logging.WARNING
            event(level, "heartbeat failed", again_in=pause, error=error)
            self._failing = True
            self._last = time.monotonic()
            self.due = self._last + pause
            return Beat([], [])
        if self._failing:
            event(logging.INFO, "the heart beats again")
            self._failing = False
        self.good = self._last = time.monotonic()
        # Jitter, so that workers started together do not beat together.
        self.due = self._last + self.pace * random.uniform(0.8, 1.0)
        return answer
