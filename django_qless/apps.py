"""The Django app. Nothing here touches a server, or imports the project's jobs."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DjangoQlessConfig(AppConfig):
    """Makes `django_qless` an app: its commands, checks and, later, its pages."""

    name = "django_qless"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from django_qless.checks import register_checks
        from django_qless.tasks import frameworks

        register_checks()
        frameworks.register_checks()
