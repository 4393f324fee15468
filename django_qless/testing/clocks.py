"""Time that is moved on instead of waited for: calls of the core carry their clock.

Within `moved(alias, moment)` all calls of this process to the alias's server are made at
that moment, those of the jobs that run as well. The time of the server itself, of the
database and of Python stays what it is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django_qless.connections import connections
from django_qless.core import LockLost, QlessError

#: What `with_scheduled` may be: whether, or for how long, or until when.
Span = bool | float | timedelta | datetime

_lock = threading.Lock()
_moments: dict[str, list[float]] = {}
# Jobs that run now in this process: their locks go along with the time.
_held: list[tuple[str, str, str]] = []


@contextmanager
def moved(alias: str, moment: float | None) -> Iterator[None]:
    """Make the calls to an alias at this moment, in seconds of the epoch; None: now.

    Of several moments, one within the other or in several threads, the latest counts.
    """
    if moment is None:
        yield
        return
    with _lock:
        _moments.setdefault(alias, []).append(moment)
        _set(alias)
    try:
        _prolong(alias)
        yield
    finally:
        with _lock:
            _moments[alias].remove(moment)
            _set(alias)


@contextmanager
def held(alias: str, jid: str, token: str) -> Iterator[None]:
    """Keep the lock of a job that runs, however far time is moved meanwhile."""
    entry = (alias, jid, token)
    _held.append(entry)
    try:
        yield
    finally:
        _held.remove(entry)


def now(alias: str) -> float:
    """Return the time by which an alias's server decides, in seconds of the epoch."""
    return float(connections[alias].meta()["now"])


def end_of(span: Span, alias: str) -> float | None:
    """Return the moment up to which time may be moved: inf for ever, None: not at all.

    Raises TypeError and ValueError.
    """
    if span is True:
        return math.inf
    if span is False:
        return None
    if isinstance(span, datetime):
        if span.tzinfo is None:
            raise ValueError(f"with_scheduled={span!r} must be an aware datetime")
        return span.timestamp()
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if not isinstance(seconds, (int, float)):
        raise TypeError(
            "with_scheduled is True, False, seconds, a timedelta or an aware datetime, "
            f"not {span!r}"
        )
    return now(alias) + seconds


def _set(alias: str) -> None:
    moments = _moments.get(alias)
    moment: str | float = max(moments) if moments else "*"
    connections[alias].script.now = moment
    connections.aclient(alias).script.now = moment


def _prolong(alias: str) -> None:
    client = connections[alias]
    for where, jid, token in list(_held):
        if where == alias:
            try:
                client.heartbeat(jid, token)
            except (LockLost, QlessError):
                continue  # The job is not ours any more, as its end will show.
