"""What the server tells a worker of its own accord: that something concerns it.

A message is a hint and may get lost. The reply to the next heartbeat is the truth, so
all that a hint does is to have the heart beat now.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django_qless.core.events import RECONNECTED
from django_qless.core.exceptions import QlessError
from django_qless.worker.log import event

if TYPE_CHECKING:
    from django_qless.core import Client

#: Said to the worker that looks after cron schedules: one has changed.
SCHEDULES = ("schedules", RECONNECTED)

HINTS = ("canceled", "lock_lost", "put", "order", RECONNECTED)

AFTER_REFUSAL = 60.0
"""Seconds until the next try when the server has forbidden to listen."""


class Hearing:
    """One subscription, for a loop that must not wait; there may be none at times."""

    def __init__(self, client: Client, worker: str) -> None:
        self._subscriber = client.events(f"w:{worker}")
        self._refused_until = 0.0
        #: Whether a schedule has changed; until somebody sets it back.
        self.schedules_changed = False

    def fileno(self) -> int | None:
        """Return what to watch for reading, None if there is nothing at the moment."""
        return self._subscriber.fileno()

    @property
    def due(self) -> float:
        """When `listen` has to be called though there is nothing to read (monotonic)."""
        return max(self._subscriber.due, self._refused_until)

    def listen(self) -> bool:
        """Return whether a hint has come. Raises nothing.

        Makes a lost connection again when its time has come.
        """
        if time.monotonic() < self._refused_until:
            return False
        try:
            heard = self._subscriber.look()
        except QlessError as error:
            event(logging.WARNING, "cannot hear events", error=error)
            self._refused_until = time.monotonic() + AFTER_REFUSAL
            return False
        if any(each.event in SCHEDULES for each in heard):
            self.schedules_changed = True
        return any(each.event in HINTS for each in heard)

    def close(self) -> None:
        """Stop to listen; in a child, let go of the parent's connection."""
        self._subscriber.close()
