from __future__ import annotations

from django.apps import AppConfig


class CodebaseConfig(AppConfig):
    """Measures Python source code, one job per file."""

    name = "codebase"
    verbose_name = "Code base"
