"""Cleanup of a thread's database connections around each job.

Connections that are stale or broken are closed, and transactions that a job left open are
rolled back. Django gives each thread its own connections: these are cleaned up here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections as databases
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

logger = logging.getLogger("django_qless.worker")

#: A connection that was usable less than this many seconds ago is not checked again.
FRESH_SECONDS = 1.0

#: The number of open transactions of each connection.
Depths = list[tuple[BaseDatabaseWrapper, int]]


class OpenConnections(threading.local):
    """Connections that this thread has opened.

    Asking Django for them takes as long as a small job.
    """

    def __init__(self) -> None:
        # Runs in each thread, at the first access.
        self.databases = [
            database
            for database in databases.all(initialized_only=True)
            if database.connection is not None
        ]
        self.fresh_until = 0.0

    def add(self, database: BaseDatabaseWrapper) -> None:
        """Add a new connection."""
        if not any(database is known for known in self.databases):
            self.databases.append(database)


#: Empty in threads whose jobs use no database: then there is nothing to clean up.
opened = OpenConnections()


def before_job() -> Depths | None:
    """Return the depths of transactions that are not the job's; None: no connection.

    A connection that has broken or expired since the last job is closed.
    """
    if not opened.databases:
        return None
    if monotonic() > opened.fresh_until:
        for database in opened.databases:
            _close_if_unusable(database, was_idle=True)
    return depths_of(opened.databases)


def after_job(depths: Depths | None, *, suspect: bool = False) -> None:
    """Roll back what the job left open, and close what has broken or expired.

    `suspect`: the job was interrupted, perhaps during a query, so that its connections
    are not used again.
    """
    if not opened.databases:
        return
    roll_back_to(depths, opened.databases)
    for database in opened.databases:
        database.queries_log.clear()
        _close_if_unusable(database, suspect=suspect)
    opened.fresh_until = monotonic() + FRESH_SECONDS


def depths_of(opened: Iterable[BaseDatabaseWrapper]) -> Depths:
    """Return the number of open transactions of each connection."""
    return [(database, len(database.atomic_blocks)) for database in opened]


def roll_back_to(depths: Depths | None, opened: Iterable[BaseDatabaseWrapper]) -> None:
    """Roll back the transactions beyond these depths."""
    before = dict(depths or ())
    for database in opened:
        for _ in range(len(database.atomic_blocks) - before.get(database, 0)):
            try:
                database.atomic_blocks[-1].__exit__(LeftOpen, LeftOpen(), None)
            except Exception:
                logger.exception(
                    "a transaction in %s cannot be rolled back", database.alias
                )
                _close(database)


def _close_if_unusable(
    database: BaseDatabaseWrapper, *, was_idle: bool = False, suspect: bool = False
) -> None:
    """Close an unusable connection; an idle one is checked on the server."""
    # In a transaction from before the job the connection is still needed.
    if database.connection is None or database.in_atomic_block:
        return
    try:
        database.close_if_unusable_or_obsolete()
        # Servers and proxies end idle connections without notice.
        broken = was_idle and database.connection and not database.is_usable()
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
    if opened.databases:
        databases.close_all()


def before_fork() -> None:
    """Close all connections of this thread, and the connection pools of all threads.

    The sockets of a pool would have two users after a fork, and its threads end with
    it. The new process makes a pool when it needs one.
    """
    databases.close_all()
    for name in databases:
        if not (databases.settings[name].get("OPTIONS") or {}).get("pool"):
            continue
        # One that is not configured well has no connections; its jobs see the error.
        with suppress(ImproperlyConfigured):
            database: Any = databases[name]
            if hasattr(database, "close_pool"):
                database.close_pool()


class LeftOpen(Exception):
    """Rolls back a transaction that a job has left open."""


def _connection_created(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    opened.add(connection)


connection_created.connect(
    _connection_created, dispatch_uid="django_qless.runtime.connection_cleanup"
)
