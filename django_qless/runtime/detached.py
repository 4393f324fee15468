"""The environment of a detached job, in a new interpreter."""

from __future__ import annotations

import django

from django_qless.job_types.discovery import discover
from django_qless.runtime.environment import DjangoEnvironment


def environment_of(alias: str) -> DjangoEnvironment:
    """Load the project as `manage.py` does, and return the environment of an alias.

    DJANGO_SETTINGS_MODULE is inherited from the worker.
    """
    django.setup()
    discover()
    return DjangoEnvironment(alias)
