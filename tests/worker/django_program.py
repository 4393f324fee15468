"""`python -m django`, imported before it is known for which settings.

A template of it has imported what the commands of django_qless need. Models, and what
needs the settings, each process loads for itself: the settings come with its order.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import django
from django.conf import empty, settings
from django.core import management
from django.db import connections

import django_qless.management.commands as commands

# Some of it asks for the settings while it is imported, if only for the language.
settings.configure()

for name in (
    *(f"{commands.__name__}.{each.name}" for each in iter_modules(commands.__path__)),
    *("django.core.management.commands.shell", "django.db.backends.sqlite3.base"),
    *("django.contrib.staticfiles.finders", "django.db.migrations.migration"),
    *("django.template.defaulttags", "django.views.debug", "redis.asyncio"),
):
    import_module(name)

# Each process has those of its own order, and the databases that they name.
settings._wrapped = empty
connections._settings = None
connections.__dict__.pop("settings", None)


def main() -> int:
    sys.argv[0] = str(Path(django.__file__).with_name("__main__.py"))
    management.execute_from_command_line(sys.argv)
    return 0
