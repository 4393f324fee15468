"""The models: entries of the menu and permissions, and no tables."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import AdminSite
from django.core.management import call_command
from django.db import connection

from django_qless.admin.links import Links
from django_qless.admin.views import menu
from django_qless.models import Queue


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


@pytest.mark.django_db
def test_they_have_no_rows(django_assert_num_queries: Any) -> None:
    """So that what reads all models of a project does not fail."""
    output = io.StringIO()
    call_command("dumpdata", "django_qless", stdout=output)
    assert json.loads(output.getvalue()) == []
    with django_assert_num_queries(0):
        for model in apps.get_app_config("django_qless").get_models():
            assert list(model._default_manager.all()) == []


def test_the_menu_of_a_site_has_those_that_are_registered_there() -> None:
    site = AdminSite(name="queues alone")
    site.register(Queue)
    [tab] = menu(site, Links("admin", "default"), "queue")
    assert tab == ("Queues", "/admin/django_qless/queue/", True)
