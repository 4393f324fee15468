"""Outboxes in a worker: checked at its start, swept up by one of its processes."""

from __future__ import annotations

import logging
import time

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.db import connections as databases

from django_qless.checks.outbox import outbox_problems
from django_qless.outbox import tables
from django_qless.outbox.sweep import sweep

logger = logging.getLogger("django_qless.worker")

#: Seconds between two looks at an empty outbox.
PERIOD = 2.0
#: Seconds between two tries where others deliver the same entries; and how many tries.
AGAIN, TRIES = 0.05, 40
#: Seconds between two looks for databases that have been migrated.
LOOK = 60.0


def check_outboxes(alias: str) -> None:
    """Raise ImproperlyConfigured if jobs of an alias use an outbox that cannot be used."""
    for problem in outbox_problems(alias):
        raise ImproperlyConfigured(problem)


def keep_sweeping(alias: str) -> None:
    """Sweep up the outboxes of all databases for an alias; never return."""
    found: list[str] = []
    due = 0.0
    while True:
        if time.monotonic() >= due:
            found, due = list(tables.migrated_databases()), time.monotonic() + LOOK
        for name in found:
            sweep_all(name, alias)
        time.sleep(PERIOD)


def sweep_all(database: str, alias: str) -> int:
    """Sweep up what is left in one database's outbox; return how many entries.

    Raises nothing: what is wrong is logged, once for as long as it lasts.
    """
    entries, after, tries = 0, 0, TRIES
    trouble: Exception | None = None
    try:
        databases[database].close_if_unusable_or_obsolete()
        while True:
            swept = sweep(database, alias, after=after)
            entries += swept.entries
            trouble = swept.error
            if swept.is_locked and tries:
                # By their processes, which deliver their own when the server is back.
                tries -= 1
                time.sleep(AGAIN)
            elif swept.last is None:
                break
            else:
                after = swept.last
        if swept.is_locked:
            trouble = None
    except DatabaseError as error:
        trouble = error
        databases[database].close()
    except Exception as error:
        trouble = error
        if type(error).__name__ != _troubles.get(database):
            logger.exception("an outbox cannot be swept: database=%s", database)
    _tell(database, entries, trouble)
    return entries


_troubles: dict[str, str] = {}


def _tell(database: str, entries: int, trouble: Exception | None) -> None:
    """Log what has changed."""
    kind = type(trouble).__name__ if trouble else ""
    if kind != _troubles.get(database, "") and trouble:
        logger.warning("outbox not swept: database=%s error=%s", database, trouble)
    _troubles[database] = kind
    if entries:
        logger.info("outbox swept: database=%s entries=%s", database, entries)
