"""The settings of a project that is upgraded, the same for both builds."""

from __future__ import annotations

import os

SECRET_KEY = "only for tests"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_qless",
    "shop",
]
QLESS = {
    "default": {
        "LOCATION": os.environ["SHOP_SERVER"],
        "CONFIG": {"heartbeat": 2, "grace-period": 1},
    }
}
TASKS = {
    "default": {
        "BACKEND": "django_qless.tasks.QlessBackend",
        "QUEUES": [],
        "OPTIONS": {},
    }
}
