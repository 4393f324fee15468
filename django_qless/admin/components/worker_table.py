"""Workers as rows of a table, and the report of one, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import formatting
from django_qless.operations.workers import is_alive, is_late

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.views import View
    from django_qless.core import Brief
    from django_qless.core.commands.operations import WorkerCounts

STATES: dict[str, _StrOrPromise] = {
    "running": gettext_lazy("running"),
    "quiet": gettext_lazy("quiet"),
    "draining": gettext_lazy("draining"),
    "stopping": gettext_lazy("stopping"),
    "late": gettext_lazy("late"),
    "silent": gettext_lazy("silent"),
    "ended": gettext_lazy("ended"),
    "": gettext_lazy("alive"),
}
"""The states of workers; "" is that of another qless client, which sends none."""

COLOURS = {"running": "good", "": "good", "silent": "bad", "ended": "bad"}
"""The colours of states; all others are warnings."""

MOST_JOBS = 3
"""Jobs that a row shows, before the number of others."""


@dataclass(frozen=True)
class HeldJob:
    """A job that a worker holds."""

    brief: Brief
    url: str
    elapsed: str


@dataclass(frozen=True)
class WorkerRow:
    """A worker as lists and its page show it; "" and None for what is not known."""

    counts: WorkerCounts
    url: str
    alive: bool
    late: bool
    """True if its heartbeat is overdue: perhaps it is lost."""
    state: str
    """running, quiet, draining, stopping, silent, ended, or ""."""
    state_text: str
    colour: str
    host: str
    pid: int | None
    pool: str
    reserver: str
    """The order of its queues."""
    queues: list[str]
    exclude: list[str]
    memory: int | None
    processes: int | None
    jobs: list[HeldJob]
    more_jobs: int

    @property
    def held(self) -> int:
        """The number of jobs that the worker holds, with stalled ones."""
        return self.counts.jobs + self.counts.stalled


def worker_row(counts: WorkerCounts, jobs: Sequence[Brief], view: View) -> WorkerRow:
    """Return the row of a worker, whose own report may be incomplete."""
    info = counts.info or {}
    alive = is_alive(counts, view.now)
    late = alive and is_late(counts, view.now)
    state = _text(info, "state") if alive else "silent" if counts.beat else "ended"
    shown = "late" if late else state
    return WorkerRow(
        counts=counts,
        url=view.links.url("worker_change", counts.name),
        alive=alive,
        late=late,
        state=state,
        state_text=str(STATES.get(shown, shown)),
        colour=COLOURS.get(shown, "warn"),
        host=_text(info, "host"),
        pid=_number(info, "pid"),
        pool=_pool(info),
        reserver=_text(info, "reserver"),
        queues=_texts(info, "queues"),
        exclude=_texts(info, "exclude"),
        memory=_number(info, "memory"),
        processes=_number(info, "processes"),
        jobs=[_held(brief, view) for brief in jobs[:MOST_JOBS]],
        more_jobs=max(0, counts.jobs + counts.stalled - min(len(jobs), MOST_JOBS)),
    )


def _held(brief: Brief, view: View) -> HeldJob:
    return HeldJob(
        brief,
        view.links.url("job_change", brief.jid),
        formatting.span(max(0.0, view.now - brief.since)),
    )


def _pool(info: dict[str, Any]) -> str:
    pool, concurrency = _text(info, "pool"), _number(info, "concurrency")
    if pool and concurrency is not None:
        return _("%(pool)s × %(concurrency)s") % {
            "pool": pool,
            "concurrency": concurrency,
        }
    return pool


def _text(info: dict[str, Any], name: str) -> str:
    value = info.get(name, "")
    return str(value)[:300] if isinstance(value, (str, int)) else ""


def _texts(info: dict[str, Any], name: str) -> list[str]:
    values = info.get(name)
    return [str(value) for value in values] if isinstance(values, list) else []


def _number(info: dict[str, Any], name: str) -> int | None:
    value = info.get(name)
    return value if isinstance(value, int) else None
