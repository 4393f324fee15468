"""A job on a model, as the example project has it: `codebase.Module.measure`."""

from __future__ import annotations

from django.db import models

from django_qless import job


class Module(models.Model):
    """Never saved: only its jobs are queued."""

    def __str__(self) -> str:
        return f"module {self.pk}"

    @job(tags=["python", "stdlib"], priority=5)
    def measure(self) -> None:
        """Not run here."""
