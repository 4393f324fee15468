"""Settings of an ordinary small project; server and files come from the environment."""

from __future__ import annotations

import json
import os

SECRET_KEY = "of-no-importance"
DEBUG = False
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django_qless",
    "benchmarks.project",
    "benchmarks.project.codebase",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["BENCH_DIRECTORY"] + "/db.sqlite3",
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# BENCH_QLESS is the alias where it is more than a server.
QLESS = {
    "default": json.loads(os.environ["BENCH_QLESS"])
    if "BENCH_QLESS" in os.environ
    else {"LOCATION": os.environ["BENCH_URL"]}
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "root": {"level": "WARNING"},
}
