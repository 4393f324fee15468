"""The models: entries of the menu and permissions, and no tables."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db
def test_the_migrations_say_what_the_models_say() -> None:
    """A project that runs makemigrations finds nothing to write in this app."""
    call_command("makemigrations", "django_qless", check=True, dry_run=True)


@pytest.mark.django_db
def test_there_are_no_tables() -> None:
    models = list(apps.get_app_config("django_qless").get_models())
    assert models
    tables = connection.introspection.table_names()
    assert not {model._meta.db_table for model in models} & set(tables)
