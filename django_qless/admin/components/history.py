"""The history of a job: its events, attempts and times, for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting
from django_qless.admin.formatting import Text, head
from django_qless.core.attempts import (
    NOT_RECORDED,
    NOTICE,
    PUT_AGAIN,
    Attempts,
    Phase,
    is_log,
    read_attempts,
)
from django_qless.core.states import HELD

if TYPE_CHECKING:
    from django_qless.admin.links import Links
    from django_qless.core import JobView

LOG_TEXT = 4 * 1024
"""Characters of a log line that are shown."""

TITLES: dict[str, Promise] = {
    "put": _("Enqueued"),
    "popped": _("Taken by a worker"),
    "done": _("Done"),
    "failed": _("Failed"),
    "retried": _("Failed, will be retried"),
    "returned": _("Returned to its queue"),
    "timed-out": _("Taken from its worker (timed out)"),
    "crashed": _("Its process died"),
    "lost": _("Lock lost"),
    "canceled": _("Canceled"),
}
"""Events that the core writes into a history; all others are log lines."""


@dataclass(frozen=True)
class Event:
    """An entry of a history."""

    when: float
    kind: str
    """One of TITLES, or "log"."""
    title: Promise | str
    after: float | None
    """Seconds since the entry before; None for the first, and after a gap."""
    text: str = ""
    """The queue, worker or failure group that the entry names."""
    url: str = ""
    by: str = ""
    by_url: str = ""
    """The worker, if `text` is another name."""
    log: Text | None = None
    """The text of a log line; `more` has its other members."""
    more: tuple[tuple[str, Text], ...] = ()
    is_gap: bool = False
    """True if entries before this one are omitted."""

    @property
    def at(self) -> datetime | None:
        """The time, in the user's zone."""
        return formatting.moment(self.when)

    @property
    def gap(self) -> str:
        """The time since the entry before, in words; "" for none."""
        if not self.after:
            return ""
        return in_words(self.after, is_exact=not self.after.is_integer())


@dataclass(frozen=True)
class Spent:
    """How a job spent its time, in words; "" for nothing of that kind."""

    waiting: str
    running: str
    unknown: str
    """Between attempts whose ends are not recorded."""
    runs: int
    is_all: bool
    """True if the history is complete."""


@dataclass(frozen=True)
class AttemptRow:
    """An attempt as a row of the table."""

    number: int | None
    """None if the history is not complete."""
    worker: str
    worker_url: str
    started: datetime | None
    waited: str
    ran: str
    """In words; "" if not known."""
    end: str
    """In words."""
    ready: datetime | None
    """When the job was ready again, after a delay."""
    is_bad: bool
    group: str
    group_url: str
    message: str


def in_words(seconds: float, *, is_exact: bool) -> str:
    """Return a duration with the precision of the history."""
    return (
        formatting.span(seconds) if is_exact else formatting.whole_span(round(seconds))
    )


def phase_in_words(phase: Phase | None) -> str:
    """Return the duration of a phase; "" if it is not known."""
    return in_words(phase.seconds, is_exact=phase.is_exact) if phase else ""


def events(view: JobView[Any], links: Links, *, with_logs: bool) -> list[Event]:
    """Return the entries of a history, the oldest first.

    `with_logs`: whether the user may see log lines.
    """
    history = view.job.history
    missing = view.history_total - len(history)
    found: list[Event] = []
    previous: float | None = None
    for n, entry in enumerate(history):
        when = _number(entry.get("when"))
        is_gap = n == 1 and missing > 0
        after = None if previous is None or is_gap else when - previous
        previous = when
        what = str(entry.get("what", ""))
        if what in TITLES and not is_log(entry):
            found.append(_known(what, entry, links, when, after, is_gap))
            continue
        log, more = _log(what, entry) if with_logs else (None, ())
        found.append(Event(when, "log", "", after, log=log, more=more, is_gap=is_gap))
    return found


def attempts_of(view: JobView[Any], now: float) -> Attempts:
    """Return a job's attempts, and the phases of its life so far."""
    job, brief = view.job, view.brief
    return read_attempts(
        job.history,
        is_running=brief.state in HELD,
        now=now,
        since=brief.since,
        failed=job.failure.when if job.failure else None,
        missing=view.history_total - len(job.history),
    )


def spent(view: JobView[Any], found: Attempts) -> Spent:
    """Return how long a job has waited and run."""
    is_all = view.history_total == len(view.job.history)

    def time(kind: str) -> str:
        parts = [phase for phase in found.phases if phase.kind == kind]
        seconds = sum(phase.seconds for phase in parts)
        is_exact = all(phase.is_exact for phase in parts)
        return in_words(seconds, is_exact=is_exact) if parts else ""

    runs = sum(each.has_begun for each in found.attempts)
    return Spent(time("waiting"), time("running"), time("unknown"), runs, is_all)


ATTEMPT_ENDS: dict[str, Promise] = {
    "": _("runs"),
    "done": _("completed"),
    "failed": _("failed"),
    "retried": _("failed, will be retried"),
    "returned": _("returned to its queue"),
    "crashed": _("its process died"),
    "lost": _("lock lost"),
    "canceled": _("canceled"),
    NOTICE: _("taken from its worker"),
    PUT_AGAIN: _("enqueued again meanwhile"),
    NOT_RECORDED: _("not recorded"),
}

_BAD = ("failed", "retried", "crashed", "lost")


def attempt_rows(
    view: JobView[Any], found: Attempts, links: Links, *, with_messages: bool
) -> list[AttemptRow]:
    """Return the rows of the attempts, oldest first."""
    is_all = view.history_total == len(view.job.history)
    return [
        AttemptRow(
            number=n if is_all else None,
            worker=attempt.worker,
            worker_url=links.url("worker_change", attempt.worker)
            if attempt.worker
            else "",
            started=formatting.moment(attempt.started),
            waited=phase_in_words(attempt.waiting),
            ran=phase_in_words(attempt.running),
            end=str(ATTEMPT_ENDS[attempt.end]),
            ready=formatting.moment(attempt.until),
            is_bad=attempt.end in _BAD,
            group=attempt.group,
            group_url=links.url("failure_change", attempt.group)
            if attempt.group
            else "",
            message=attempt.message if with_messages else "",
        )
        for n, attempt in enumerate(found.attempts, 1)
    ]


def _known(
    what: str,
    entry: dict[str, Any],
    links: Links,
    when: float,
    after: float | None,
    is_gap: bool,
) -> Event:
    queue, worker, group = (entry.get(name) for name in ("q", "worker", "group"))
    by = str(worker) if worker and (queue or group) else ""
    by_url = links.url("worker_change", by) if by else ""
    text, url = "", ""
    for name, page in (
        (queue, "queue_change"),
        (group, "failure_change"),
        (worker, "worker_change"),
    ):
        if name:
            text = str(name)
            url = links.url(page, text)
            break
    return Event(when, what, TITLES[what], after, text, url, by, by_url, is_gap=is_gap)


def _log(what: str, entry: dict[str, Any]) -> tuple[Text, tuple[tuple[str, Text], ...]]:
    more: Sequence[tuple[str, Any]] = [
        (name, value) for name, value in entry.items() if name not in ("when", "what")
    ]
    log = head(what, LOG_TEXT)
    texts: list[tuple[str, Text]] = []
    most = LOG_TEXT - len(log.text)
    for name, value in more:
        if most <= 0:
            break
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        texts.append((head(name, 1024).text, head(text, most)))
        most -= len(texts[-1][1].text)
    return log, tuple(texts)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
