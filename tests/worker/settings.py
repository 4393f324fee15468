"""The tests' settings, for workers that run as processes of their own."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

# (An outbox is a process more for a worker.)
INSTALLED_APPS = [
    *(app for app in INSTALLED_APPS if app != "django_qless.outbox"),
    "tests.worker.shop",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE", ":memory:"),
    }
}
QLESS = {"default": {"LOCATION": os.environ.get("LOCATION", "redis://localhost:1")}}
