"""The Django app. Nothing here touches a server, or imports the project's jobs."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DjangoQlessConfig(AppConfig):
    """Makes `django_qless` an app: its commands, checks and, later, its pages."""

    name = "django_qless"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and what runs jobs for ON_OUTAGE."""
        from django_qless.checks import register_checks
        from django_qless.enqueue import outage
        from django_qless.tasks import frameworks

        outage.run_inline = _run_inline
        register_checks()
        frameworks.register_checks()


def _run_inline(request: Any) -> None:
    # Loaded when it is needed first: it brings all that workers have.
    from django_qless.runtime.inline import run

    run(request)
