"""The tests' settings, for processes of their own: databases and server by environment."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

# Without the models of other tests.
INSTALLED_APPS = [
    *(app for app in INSTALLED_APPS if not app.startswith("tests.")),
    "tests.outbox.shop",
]
DATABASES = {"default": json.loads(os.environ["DATABASE"])}
QLESS = {"default": json.loads(os.environ["QLESS"])}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}
