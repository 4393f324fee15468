"""Workers as rows of a table, and what one says of itself, in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_qless.admin import words
from django_qless.worker.serving import is_alive, is_late

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from django_qless.admin.views import View
    from django_qless.core import Brief, WorkerView
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
"""Of workers; "" is of one that does not say, another qless client's."""

COLOURS = {"running": "good", "": "good", "silent": "bad", "ended": "bad"}
"""Those that are not a warning."""

MOST_JOBS = 3
"""Jobs that a row shows; it says how many more there are."""


@dataclass(frozen=True)
class HeldJob:
    """A job that a worker holds, as a row shows it."""

    brief: Brief
    url: str
    elapsed: str


@dataclass(frozen=True)
class WorkerRow:
    """A worker as lists and its page show it; "" and None for what it does not say."""

    counts: WorkerCounts
    url: str
    alive: bool
    late: bool
    """Whether its sign of life should have been there: perhaps it is lost."""
    state: str
    """running, quiet, draining, stopping, silent, ended, or ""."""
    state_text: str
    colour: str
    host: str
    pid: int | None
    pool: str
    reserver: str
    """How it chooses among its queues."""
    queues: list[str]
    exclude: list[str]
    memory: int | None
    processes: int | None
    jobs: list[HeldJob]
    more_jobs: int

    @property
    def held(self) -> int:
        """How many jobs the worker holds, stalled ones among them."""
        return self.counts.jobs + self.counts.stalled


def worker_rows(found: Iterable[WorkerView], view: View) -> list[WorkerRow]:
    """Return what a table shows of these workers."""
    return [worker_row(each.counts, each.jobs, view) for each in found]


def worker_row(counts: WorkerCounts, jobs: Sequence[Brief], view: View) -> WorkerRow:
    """Return what is shown of a worker. What it says of itself is taken for hearsay."""
    said = counts.info or {}
    alive = is_alive(counts, view.now)
    late = alive and is_late(counts, view.now)
    state = _text(said, "state") if alive else "silent" if counts.beat else "ended"
    shown = "late" if late else state
    return WorkerRow(
        counts=counts,
        url=view.links.url("worker_change", counts.name),
        alive=alive,
        late=late,
        state=state,
        state_text=str(STATES.get(shown, shown)),
        colour=COLOURS.get(shown, "warn"),
        host=_text(said, "host"),
        pid=_number(said, "pid"),
        pool=_pool(said),
        reserver=_text(said, "reserver"),
        queues=_texts(said, "queues"),
        exclude=_texts(said, "exclude"),
        memory=_number(said, "memory"),
        processes=_number(said, "processes"),
        jobs=[_held(brief, view) for brief in jobs[:MOST_JOBS]],
        more_jobs=max(0, counts.jobs + counts.stalled - min(len(jobs), MOST_JOBS)),
    )


def _held(brief: Brief, view: View) -> HeldJob:
    return HeldJob(
        brief,
        view.links.url("job_change", brief.jid),
        words.span(max(0.0, view.now - brief.since)),
    )


def _pool(said: dict[str, Any]) -> str:
    pool, concurrency = _text(said, "pool"), _number(said, "concurrency")
    if pool and concurrency is not None:
        return _("%(pool)s × %(concurrency)s") % {
            "pool": pool,
            "concurrency": concurrency,
        }
    return pool


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name, "")
    return str(value)[:300] if isinstance(value, (str, int)) else ""


def _texts(said: dict[str, Any], name: str) -> list[str]:
    values = said.get(name)
    return [str(value) for value in values] if isinstance(values, list) else []


def _number(said: dict[str, Any], name: str) -> int | None:
    value = said.get(name)
    return value if isinstance(value, int) else None
