"""What waits in the outboxes, for the doctor, the admin and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import DatabaseError
from django.db import connections as databases
from django.db.models import Count, Max, Min, Sum

from django_qless import conf
from django_qless.outbox import tables

#: Seconds after which entries should have been swept up long ago.
OLD = 60.0


@dataclass(frozen=True)
class Waiting:
    """What waits in one database for an alias."""

    database: str
    entries: int = 0
    jobs: int = 0
    #: Seconds since the oldest entry was written; 0 without one.
    oldest: float = 0.0
    #: Why nothing is known.
    error: DatabaseError | None = None

    @property
    def is_late(self) -> bool:
        """True if a sweep should have taken the oldest entry long ago."""
        return self.oldest > OLD


def waiting(alias: str) -> Iterator[Waiting]:
    """Yield what waits for an alias in each database that has an outbox: a query each.

    An error of a database is told in its place. Without the app there is nothing.
    """
    if not tables.is_installed():
        return
    for name in databases:
        try:
            if tables.is_known_migrated(name):
                yield _of(name, alias)
        except DatabaseError as error:
            yield Waiting(name, error=error)


def unclaimed() -> Iterator[tuple[str, str, int]]:
    """Yield database, alias and number of the entries whose alias QLESS does not have.

    No worker sweeps them up. A database that does not answer is left out.
    """
    if not tables.is_installed():
        return
    known = conf.alias_names()
    for name in databases:
        try:
            if tables.is_known_migrated(name):
                others = tables.entries(name).exclude(alias__in=known)
                counts = others.values_list("alias").annotate(Count("id"))
                for alias, count in counts.order_by("alias"):
                    yield name, alias, count
        except DatabaseError:
            continue


def _of(database: str, alias: str) -> Waiting:
    found = (
        tables.entries(database)
        .filter(alias=alias)
        .aggregate(
            entries=Count("id"),
            jobs=Sum("jobs"),
            oldest=Min("created"),
            # By the database's clock, as `created` is.
            now=Max(tables.Now()),
        )
    )
    if not found["entries"]:
        return Waiting(database)
    age = (found["now"] - found["oldest"]).total_seconds()
    return Waiting(database, found["entries"], found["jobs"], max(0.0, age))
