"""What keeps jobs out of the outbox that they use, as qless_doctor tells it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import override_settings

from django_qless.outbox import tables
from django_qless.outbox.models import Entry
from tests.management.commands import doctor_findings

UNOPENED = "unable to open database file"


def findings() -> list[tuple[str, str]]:
    """Return the levels and texts of what is found in outboxes."""
    return [
        (level, text) for level, about, text in doctor_findings() if about == "outbox"
    ]


class Elsewhere:
    """A router that sends the outbox to a separate database."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "away" if model is Entry else None


@pytest.fixture
def away(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """A database alias of this name, which does not open."""
    path = str(tmp_path / "no" / "folder.sqlite3")
    connections.settings["away"] = {**connections.settings["default"], "NAME": path}
    try:
        # As Django's own mark allows no database that is not in DATABASES.
        with django_db_blocker.unblock():
            yield
    finally:
        del connections["away"]
        del connections.settings["away"]


def outbox(**options: Any) -> Any:
    """Let the default alias use the outbox."""
    default = {**settings.QLESS["default"], **options}
    return override_settings(QLESS={**settings.QLESS, "default": default})


def test_a_database_that_is_away_is_no_database_without_the_table(
    qless: Any, away: None
) -> None:
    routers = [f"{__name__}.Elsewhere"]
    with outbox(ON_OUTAGE="buffer"), override_settings(DATABASE_ROUTERS=routers):
        assert tables.usual_database() == "away"
        found = findings()
    assert [level for level, _ in found if level == "PROBLEM"] == []
    assert ("hint", f"database away: not known: {UNOPENED}") in found


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_database_without_the_table(qless: Any) -> None:
    table = Entry._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO aside")
    tables._migrated.discard("default")
    try:
        with outbox(ON_COMMIT="outbox"):
            found = findings()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE aside RENAME TO {table}")
    assert [text for level, text in found if level == "PROBLEM"] == [
        "QLESS['default'], by ON_COMMIT, uses the outbox, and the database 'default' "
        "has no table for it. Run manage.py migrate django_qless_outbox."
    ]
