"""Settings of an ordinary small project; server and files come from the environment."""

from __future__ import annotations

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
QLESS = {"default": {"LOCATION": os.environ["BENCH_URL"]}}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "root": {"level": "WARNING"},
}
