"""Settings of producers and workers, which are processes of their own."""

from __future__ import annotations

import json
import os

SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django_qless",
    "tests.six_nodes",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
QLESS = json.loads(os.environ["QLESS"])
QLESS_ROUTES = {"mail": "mail", "report.*": "reports"}
