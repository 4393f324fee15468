"""Where there is an outbox: whether the app is installed, and which databases have the table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, router
from django.db import connections as databases
from django.db.models.functions import Now as DjangoNow

if TYPE_CHECKING:
    from django_qless.outbox.models import Entry

APP = "django_qless.outbox"
REMEDY = f'Add "{APP}" to INSTALLED_APPS, then run manage.py migrate.'


class Now(DjangoNow):
    """The database's clock, in UTC.

    Django's own tells the local time of a MariaDB or MySQL, which goes back by an hour in
    autumn: what was written before would be too young for a sweep.
    """

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Return its SQL for MariaDB and MySQL."""
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)


def is_installed() -> bool:
    """Return whether the project has the app."""
    return apps.is_installed(APP)


def entry_model() -> type[Entry]:
    """Return the model. Raises ImproperlyConfigured if the app is not installed."""
    if not is_installed():
        raise ImproperlyConfigured(
            f"The outbox is used, and {APP} not installed. {REMEDY}"
        )
    # A model can only be imported where its app is installed.
    from django_qless.outbox.models import Entry

    return Entry


def usual_database() -> str:
    """Return the database for what belongs to none: as the routers say."""
    return router.db_for_write(entry_model())


def is_migrated(database: str) -> bool:
    """Return whether a database has the table. Raises DatabaseError if it is away."""
    connection = databases[database]
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
    return entry_model()._meta.db_table in tables


def is_known_migrated(database: str) -> bool:
    """Return the same; once it has the table that is not asked again."""
    if database not in _migrated and is_migrated(database):
        _migrated.add(database)
    return database in _migrated


_migrated: set[str] = set()


def migrated_databases() -> Iterator[str]:
    """Yield the databases that have the table; one that is away counts as such."""
    for name in databases:
        try:
            if is_migrated(name):
                yield name
        except DatabaseError:
            yield name


def migration_of(database: str) -> str:
    """Return the command that makes the table in a database."""
    option = "" if database == "default" else f" --database={database}"
    return f"manage.py migrate django_qless_outbox{option}"


def explained(error: DatabaseError, database: str) -> Exception:
    """Return what to raise for the error of a statement: with a remedy, if there is one."""
    if entry_model()._meta.db_table not in str(error):
        return error
    return ImproperlyConfigured(
        f"The database {database!r} has no table for the outbox ({error}). "
        f"Run {migration_of(database)}."
    )


def source() -> str:
    """Return the name of this process in entries."""
    return _source_of(os.getpid())


@lru_cache(maxsize=1)
def _source_of(pid: int) -> str:
    return uuid4().hex


def entries(database: str) -> Any:
    """Return the manager of a database's entries."""
    return entry_model()._default_manager.using(database)
