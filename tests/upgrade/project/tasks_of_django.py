"""Where this Django has its Tasks."""

from __future__ import annotations

import importlib.util

FRAMEWORK = (
    "django.tasks" if importlib.util.find_spec("django.tasks") else "django_tasks"
)
