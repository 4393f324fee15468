"""What happened to a job, as events for people and as phases for a drawing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_qless.admin import words
from django_qless.admin.presenters.texts import Text, head

if TYPE_CHECKING:
    from django_qless.admin.links import Links
    from django_qless.core import JobView

LOG_TEXT = 4 * 1024
LOG_TEXTS = 40 * 1024
"""Bytes of HTML that one log line takes at most, and all of them."""

TITLES: dict[str, Promise] = {
    "put": _("Put into a queue"),
    "popped": _("Taken by a worker"),
    "done": _("Done"),
    "failed": _("Failed"),
    "timed-out": _("Taken from its worker (timed out)"),
    "crashed": _("Its process died"),
}
"""What the core itself writes into a history; all else was logged by somebody."""


@dataclass(frozen=True)
class Event:
    """An entry of a history."""

    when: float
    kind: str
    """One of TITLES, or "log"."""
    title: Promise | str
    after: float | None
    """Seconds since the entry before; None for the first, and where some are left out."""
    text: str = ""
    """A queue, a worker or a failure group, which the entry names."""
    url: str = ""
    by: str = ""
    by_url: str = ""
    """The worker, of an entry whose text is another name."""
    log: Text | None = None
    """What was logged; `more` are the members that were logged with it."""
    more: tuple[tuple[str, Text], ...] = ()
    is_gap: bool = False
    """Whether entries before this one are left out."""

    @property
    def at(self) -> datetime | None:
        """When it was, in the user's zone."""
        return words.moment(self.when)

    @property
    def gap(self) -> str:
        """The time since the entry before in words; "" for none."""
        return in_words(self.after) if self.after else ""


class Phase(NamedTuple):
    """A time that a job spent in one way."""

    kind: str
    """waiting, running or failed."""
    start: float
    end: float
    is_open: bool
    """Whether it goes on."""

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return self.end - self.start


@dataclass(frozen=True)
class Spent:
    """What became of a job's time, in seconds; history counts whole ones."""

    waiting: float
    running: float
    runs: int
    is_all: bool
    """Whether nothing of the history is missing."""

    @property
    def waiting_words(self) -> str:
        """How long it waited."""
        return in_words(self.waiting)

    @property
    def running_words(self) -> str:
        """How long it ran."""
        return in_words(self.running)


def in_words(seconds: float) -> str:
    """Return a time as exactly as a history has it: in whole seconds."""
    whole = round(seconds)
    return gettext("%d s") % whole if whole < 60 else words.span(whole)


def events(view: JobView[Any], links: Links, *, with_logs: bool) -> list[Event]:
    """Return the entries of a history, the oldest first.

    `with_logs`: whether the user may see what was logged.
    """
    history = view.job.history
    missing = view.history_total - len(history)
    found: list[Event] = []
    left = LOG_TEXTS
    previous: float | None = None
    for n, entry in enumerate(history):
        when = _number(entry.get("when"))
        is_gap = n == 1 and missing > 0
        after = None if previous is None or is_gap else when - previous
        previous = when
        what = str(entry.get("what", ""))
        if what in TITLES:
            found.append(_known(what, entry, links, when, after, is_gap))
            continue
        log, more = _log(what, entry, left) if with_logs else (None, ())
        left -= sum(len(text.text) for _name, text in more) + (
            len(log.text) if log else 0
        )
        found.append(Event(when, "log", "", after, log=log, more=more, is_gap=is_gap))
    return found


def phases(view: JobView[Any], now: float) -> list[Phase]:
    """Return how a job spent its time up to now, as far as its history tells.

    A run that was given back to be tried again leaves no entry: it seems to last until
    the next one begins.
    """
    marks: list[tuple[str, float]] = []
    for entry in view.job.history:
        kind = _AFTER.get(str(entry.get("what")))
        if kind is not None:
            marks.append((kind, _number(entry.get("when"))))
    found: list[Phase] = []
    for (kind, start), (_kind, end) in pairwise(marks):
        if kind != "end":
            found.append(Phase(kind, start, max(start, end), False))
    if marks and marks[-1][0] not in ("end", "failed"):
        kind, start = marks[-1]
        state = view.brief.state
        if kind == "running" and state not in ("running", "stalled"):
            # It was given back. When, the history does not say, but the record does.
            since = max(start, min(view.brief.since, now))
            found.append(Phase(kind, start, since, False))
            kind, start = "waiting", since
        found.append(Phase(kind, start, max(start, now), True))
    return found


def spent(view: JobView[Any], parts: Iterable[Phase]) -> Spent:
    """Return how long a job waited and ran."""
    sums = {"waiting": 0.0, "running": 0.0, "failed": 0.0}
    for phase in parts:
        sums[phase.kind] += phase.seconds
    history = view.job.history
    runs = sum(entry.get("what") == "popped" for entry in history)
    is_all = view.history_total == len(history)
    return Spent(sums["waiting"], sums["running"], runs, is_all)


# What a job does after an entry.
_AFTER = {
    "put": "waiting",
    "popped": "running",
    "done": "end",
    "failed": "failed",
    "timed-out": "waiting",
    "crashed": "waiting",
}


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


def _log(
    what: str, entry: dict[str, Any], left: int
) -> tuple[Text, tuple[tuple[str, Text], ...]]:
    most = max(0, min(LOG_TEXT, left))
    more: Sequence[tuple[str, Any]] = [
        (name, value) for name, value in entry.items() if name not in ("when", "what")
    ]
    log = head(what, most)
    texts: list[tuple[str, Text]] = []
    most -= len(log.text)
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
