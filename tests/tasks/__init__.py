"""Django's Tasks with our backend, on every Django: see `conformance.py`."""

from __future__ import annotations

from importlib import import_module

from django.test import override_settings

from tests.tasks.installed import TASKS

# Options of ours are for a backend of ours, also where Tasks are declared.
with override_settings(TASKS=TASKS):
    import_module("tests.tasks.work")
