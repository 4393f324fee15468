"""Time travel instead of waiting: the calls of the core carry their clock.

Within `travel_to(alias, moment)` all calls of this process to the alias's server are made
at that moment, those of running jobs too. The time of the server itself, of the database
and of Python stays as it is. Elsewhere calls to a server of the tests are made at the time
that Python shows, which freezegun and time-machine set.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django_qless.conf import times
from django_qless.conf.connections import clock_of, connections
from django_qless.core import QlessError

#: `with_scheduled`: yes or no, for how long, or until when.
Horizon = bool | float | timedelta | datetime

_lock = threading.Lock()
_moments: dict[str, list[float]] = {}
# Jobs that run now in this process: their locks are renewed as time moves.
_locked_jobs: list[tuple[str, str, str]] = []


@contextmanager
def travel_to(alias: str, moment: float | None) -> Iterator[None]:
    """Make the calls to an alias at this moment, in seconds of the epoch; None: now.

    Of several moments, nested or in several threads, the latest counts.
    """
    if moment is None:
        yield
        return
    with _lock:
        _moments.setdefault(alias, []).append(moment)
        _set(alias)
    try:
        _renew_locks(alias)
        yield
    finally:
        with _lock:
            _moments[alias].remove(moment)
            _set(alias)


@contextmanager
def keep_lock(alias: str, jid: str, token: str) -> Iterator[None]:
    """Keep the lock of a running job, however far time moves meanwhile."""
    entry = (alias, jid, token)
    _locked_jobs.append(entry)
    try:
        yield
    finally:
        _locked_jobs.remove(entry)


def now(alias: str) -> float:
    """Return the time of an alias's server, in seconds of the epoch."""
    return float(connections[alias].meta()["now"])


def end_of(horizon: Horizon, alias: str) -> float | None:
    """Return the moment up to which time may move: inf without end, None: not at all.

    Raises TypeError and ValueError.
    """
    if horizon is True:
        return math.inf
    if horizon is False:
        return None
    if isinstance(horizon, datetime):
        try:
            return times.in_utc(horizon).timestamp()
        except times.UnclearTime as error:
            raise ValueError(f"with_scheduled={horizon!r} must be {error}") from None
    seconds = horizon.total_seconds() if isinstance(horizon, timedelta) else horizon
    if not isinstance(seconds, (int, float)):
        raise TypeError(
            "with_scheduled is True, False, seconds, a timedelta or an aware datetime, "
            f"not {horizon!r}"
        )
    return now(alias) + seconds


def _set(alias: str) -> None:
    moments = _moments.get(alias)
    moment = max(moments) if moments else clock_of(alias)
    connections[alias].script.now = moment
    connections.aclient(alias).script.now = moment


def _renew_locks(alias: str) -> None:
    client = connections[alias]
    for job_alias, jid, token in list(_locked_jobs):
        if job_alias == alias:
            try:
                client.heartbeat(jid, token)
            except QlessError:
                continue  # The lock is lost: the job's finish will show it.
