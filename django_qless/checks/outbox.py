"""System checks of the outbox.

django_qless.E060   the outbox is used, and its app not installed
django_qless.E063   a database called "outbox", which on_commit= cannot name

That a database lacks the table is no check, for these run before `migrate` does its work:
a worker refuses to start, and the doctor shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, DatabaseError

from django_qless import conf
from django_qless.checks.messages import error
from django_qless.conf import routing
from django_qless.enqueue import dispatch
from django_qless.job_types import discovery
from django_qless.job_types.options import Options
from django_qless.job_types.registry import registry
from django_qless.outbox import tables


def check_outbox(**kwargs: Any) -> list[CheckMessage]:
    """Check that the app is installed where the outbox is used."""
    list(discovery.import_failures())
    messages: list[CheckMessage] = []
    if dispatch.OUTBOX in settings.DATABASES:
        messages.append(
            error(
                "E063",
                'DATABASES has a database "outbox": on_commit="outbox" means the outbox of '
                "the default one.",
                "Give the database another name.",
            )
        )
    user = next(_users(), None)
    if user and not tables.is_installed():
        messages.append(
            error(
                "E060",
                f"{user} uses the outbox, and {tables.APP} is not installed.",
                tables.REMEDY,
            )
        )
    return messages


def outbox_problems(alias: str) -> Iterator[str]:
    """Yield what keeps jobs of an alias out of the outbox that they use, with remedies."""
    user = next(_users(alias), None)
    if user is None:
        return
    if not tables.is_installed():
        yield f"{user} uses the outbox, and {tables.APP} is not installed. {tables.REMEDY}"
        return
    for name in dict.fromkeys(_used_databases(alias)):
        if not _has_table(name):
            yield (
                f"{user} uses the outbox, and the database {name!r} has no table for it. "
                f"Run {tables.migration_of(name)}."
            )


def _has_table(database: str) -> bool:
    try:
        return tables.is_migrated(database)
    except DatabaseError:
        return True  # It is away, which others tell.


def _users(alias: str | None = None) -> Iterator[str]:
    """Yield what uses the outbox, in words."""
    for name in _aliases(alias):
        settings_of = conf.alias(name)
        if settings_of.on_commit:
            yield f"QLESS[{name!r}], by ON_COMMIT,"
        if settings_of.on_outage == "buffer":
            yield f"QLESS[{name!r}], by ON_OUTAGE,"
    for job_type in registry:
        options = job_type.options
        if _may_be_of(alias, options) and options.on_commit == dispatch.OUTBOX:
            yield f"{job_type.name}, by on_commit,"


def _used_databases(alias: str) -> Iterator[str]:
    """Yield the databases whose outboxes are used, as far as declarations tell."""
    for name in _aliases(alias):
        if conf.alias(name).on_commit:
            yield DEFAULT_DB_ALIAS
        if conf.alias(name).on_outage == "buffer":
            yield tables.usual_database()
    for job_type in registry:
        options = job_type.options
        if _may_be_of(alias, options) and options.on_commit == dispatch.OUTBOX:
            yield DEFAULT_DB_ALIAS


def _may_be_of(alias: str | None, options: Options) -> bool:
    """Return whether such jobs are in this alias; None: any."""
    return alias in (None, routing.alias_for(options))


def _aliases(alias: str | None) -> list[str]:
    try:
        names = conf.alias_names() if alias is None else [alias]
        for name in names:
            conf.alias(name)
    except ImproperlyConfigured:
        return []  # Other checks say so.
    return names
