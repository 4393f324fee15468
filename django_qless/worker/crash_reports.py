"""Signals of runs whose process cannot send them: it was killed, or the lock is lost.

The parent of the worker knows how such a run has ended. It reports that to a helper process,
which sends the signals.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core import Reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Settlement
    from django_qless.worker.execution import Execution


class CrashReport(NamedTuple):
    """The end of a run that its process has not announced."""

    event: str
    """What has become of the job: failed, retried, or lost."""
    run: Reserved
    group: str = ""
    message: str = ""
    delay: float = 0.0
    """Seconds before the next attempt of a job that is retried."""

    @property
    def is_exhausted(self) -> bool:
        """True if it has used up the retries of an entity."""
        return self.event == "failed" and self.run.batch > 0


def failure_of(settlement: Settlement, run: Reserved, *, is_final: bool) -> CrashReport:
    """Return the report of a run whose failure was settled."""
    # All verbs of failures end with group and message.
    group, message = map(str, settlement.args[-2:])
    delay = float(settlement.args[0]) if settlement.verb == "retry" else 0.0
    event = "failed" if is_final else "retried"
    return CrashReport(event, run, group, message, delay)


def announce_crashes(execution: Execution, reports: Sequence[CrashReport]) -> None:
    """Send the signals of these runs.

    In a child, never in the parent, because it calls receivers of the project.
    """
    environment = execution.environment
    for event, run, group, message, delay in reports:
        if not environment.has_listeners(event):
            continue
        details: dict[str, object] = {}
        if event != "lost":
            details = {"exception": None, "group": group, "message": message}
        if event == "retried":
            details["delay"] = delay
        environment.announce(event, execution.shown(run), **details)
    # The entities of one run have died together.
    runs: dict[tuple[str, str], list[Reserved]] = {}
    for report in reports:
        if report.is_exhausted:
            key = (report.run.klass, report.message)
            runs.setdefault(key, []).append(report.run)
    for (klass, message), jobs in runs.items():
        data = [json.loads(job.data) for job in jobs]
        batch = {each["entity"]: each["payloads"] for each in data}
        environment.announce_exhausted(klass, batch, dict.fromkeys(batch, message))
