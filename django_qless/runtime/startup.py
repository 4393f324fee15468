"""Start of a worker: the project's config and schedules are applied to the server."""

from __future__ import annotations

import logging
from time import monotonic

from django_qless.conf import config_sync
from django_qless.schedules.declared import AGAIN, declarations_lost, sync_at_start

logger = logging.getLogger("django_qless.worker")

# How often in a row everything is applied, if it is missing right after that.
MOST_ATTEMPTS = 2


class Startup:
    """Applies config and schedules at the start of a worker, and again when needed."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        #: The time at which schedules are to be applied again, by the monotonic clock.
        self.schedules_due: float | None = None
        #: The same of options.
        self.config_due: float | None = None
        # How often in a row it was missing although it had just been applied: the server
        # lost it in that moment, or another project's mistake takes it away each time.
        self._missing = 0

    def apply(self) -> None:
        """Apply queues and options, and schedules.

        Mistakes in schedules do not keep a worker from its work.
        """
        self.sync_config()
        self.sync_schedules()
        try:
            is_missing = bool(declarations_lost(self._alias))
        except Exception:
            is_missing = True
            logger.exception("cannot tell whether config and schedules were applied")
        self._missing = self._missing + 1 if is_missing else 0

    def restore(self) -> None:
        """Apply everything again if the server has lost its data."""
        if self._missing < MOST_ATTEMPTS and declarations_lost(self._alias):
            logger.warning(
                "the server has lost this project's config and schedules: they are "
                "applied again"
            )
            self.apply()

    @property
    def waits(self) -> bool:
        """True if something is to be applied later."""
        return bool(self.schedules_due or self.config_due)

    def apply_due(self) -> None:
        """Apply options and schedules, between jobs, if that is due."""
        if self.config_due and monotonic() > self.config_due:
            try:
                self.sync_config()
            except Exception:
                logger.exception("options and limits are not applied yet")
                self.config_due = monotonic() + AGAIN
        if self.schedules_due and monotonic() > self.schedules_due:
            self.sync_schedules()

    def sync_config(self) -> None:
        """Apply options; plan the next time if they cannot be applied yet."""
        self.config_due = None
        if wait := config_sync.sync_at_start(self._alias):
            self.config_due = monotonic() + wait

    def sync_schedules(self) -> None:
        """Apply schedules; plan the next time if they cannot be applied yet."""
        self.schedules_due = None
        try:
            wait = sync_at_start(self._alias)
        except Exception:
            logger.exception("recurring jobs are not applied yet")
            wait = AGAIN
        if wait:
            self.schedules_due = monotonic() + wait
