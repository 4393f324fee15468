"""The helper: a child that runs code of the project on behalf of the parent.

The parent of a worker runs no code of the project and uses no database. So a child, which is
started when it is first needed, sends the signals of runs whose process has died, and sweeps
up outboxes if this worker serves the schedules. It runs no jobs, and may be killed at any
moment.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from django_qless.core import Reserved
from django_qless.worker.child import Child
from django_qless.worker.crash_reports import CrashReport, announce_crashes
from django_qless.worker.log import log_event, logger
from django_qless.worker.status_report import title

#: Seconds before sweeping is tried again after an error.
AGAIN = 5.0


class Helper(Child):
    """Follows the messages of the parent, one after the other."""

    def run(self) -> None:
        """Help until the parent closes the socket."""
        title("helper")
        for environment in self.environments.values():
            environment.after_fork()
        self.end.send(("ready",))
        sweeping = set[str]()
        while (message := self.end.receive()) is not None:
            word, alias, *rest = message
            if word == "reports":
                reports = [_report(row) for row in rest[0]]
                announce_crashes(self.executions[alias], reports)
            elif alias not in sweeping:
                sweeping.add(alias)
                pid = os.getpid()
                log_event(logging.INFO, "sweeping outboxes", alias=alias, pid=pid)
                threading.Thread(target=self._sweep, args=(alias,), daemon=True).start()

    def _sweep(self, alias: str) -> None:
        """Sweep up the outboxes of an alias, in a thread, for ever."""
        while True:
            try:
                self.environments[alias].sweep_outboxes()
            except Exception:  # noqa: BLE001
                logger.exception("the outboxes are not swept up")
            time.sleep(AGAIN)


def row_of(report: CrashReport) -> tuple[Any, ...]:
    """Return a report as it travels."""
    event, run, *failure = report
    return event, tuple(run), *failure


def _report(row: tuple[Any, ...]) -> CrashReport:
    event, run, *failure = row
    return CrashReport(event, Reserved._make(run), *failure)
