"""Settings of the site that the browser visits: those of the tests, in a folder."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.admin.browser.live_app"]  # noqa: F405
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {
    alias: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"{os.environ['QLESS_SCENE']}/{alias}.sqlite3",
        "OPTIONS": {"timeout": 30},
    }
    for alias in ("default", "other")
}
QLESS = {
    "default": {"LOCATION": os.environ["QLESS_SCENE_SERVER"]},
    "other": {"LOCATION": os.environ["QLESS_SCENE_SERVER"], "PREFIX": "other:"},
}
LANGUAGES = [("en", "English"), ("ar", "Arabic"), ("de", "German"), ("fr", "French")]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
