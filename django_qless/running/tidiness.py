"""What jobs may leave behind in a thread, and how it is put in order after each.

Database connections that are stale or broken are closed, and transactions that a job
left open are rolled back. Django gives each thread connections of its own; this is
about those of the present one.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Any

from django.db import connections as databases
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

logger = logging.getLogger("django_qless.worker")

#: A connection that was good so long ago needs no new look. In seconds.
FRESH_SECONDS = 1.0

#: How deep in transactions each open connection was.
Depths = list[tuple[BaseDatabaseWrapper, int]]


class Opened(threading.local):
    """The databases that this thread has connected to.

    To ask Django for them takes as long as a small job.
    """

    def __init__(self) -> None:
        # Runs once in each thread, when it first asks.
        self.databases = [
            database
            for database in databases.all(initialized_only=True)
            if database.connection is not None
        ]
        self.fresh_until = 0.0

    def add(self, database: BaseDatabaseWrapper) -> None:
        """Take in that there is a connection."""
        if not any(database is known for known in self.databases):
            self.databases.append(database)


_opened = Opened()


def before_job() -> Depths | None:
    """Return how deep in transactions the thread is: those are not the job's.

    A connection that has broken or expired since the last job is closed.
    """
    if not _opened.databases:
        return None
    if monotonic() > _opened.fresh_until:
        for database in _opened.databases:
            _look_at(database, has_rested=True)
    return [(each, len(each.atomic_blocks)) for each in _opened.databases]


def after_job(depths: Depths | None, *, suspect: bool = False) -> None:
    """Roll back what the job left open, and close what has broken or expired.

    `suspect` says that the job was interrupted, perhaps amid a query: then its
    connections are not used again.
    """
    if not _opened.databases:
        return
    before = dict(depths or ())
    for database in _opened.databases:
        database.queries_log.clear()
        for _ in range(len(database.atomic_blocks) - before.get(database, 0)):
            _roll_back(database)
        _look_at(database, suspect=suspect)
    _opened.fresh_until = monotonic() + FRESH_SECONDS


def _roll_back(database: BaseDatabaseWrapper) -> None:
    try:
        database.atomic_blocks[-1].__exit__(LeftOpen, LeftOpen(), None)
    except Exception:
        logger.exception("a transaction in %s cannot be rolled back", database.alias)
        _close(database)


def _look_at(
    database: BaseDatabaseWrapper, *, has_rested: bool = False, suspect: bool = False
) -> None:
    """Close a connection that is of no use; `has_rested`: ask the server if it is."""
    # A transaction from before the job: whoever began it needs the connection.
    if database.connection is None or database.in_atomic_block:
        return
    try:
        database.close_if_unusable_or_obsolete()
        # Servers and proxies end connections that rest, and nothing tells.
        broken = has_rested and database.connection and not database.is_usable()
    except Exception:
        logger.exception("the connection to %s is closed", database.alias)
        broken = True
    if broken or suspect:
        _close(database)


def _close(database: BaseDatabaseWrapper) -> None:
    try:
        database.close()
    except Exception:
        # It is not used again either way.
        logger.exception("the connection to %s cannot be closed", database.alias)
        database.connection = None


def leave_thread() -> None:
    """Close the connections of this thread."""
    if _opened.databases:
        databases.close_all()


class LeftOpen(Exception):
    """Rolls back a transaction that a job has left open."""


def _note(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    _opened.add(connection)


connection_created.connect(_note, dispatch_uid="django_qless.running.tidiness")
