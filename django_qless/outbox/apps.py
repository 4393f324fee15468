"""The app of the outbox: it brings a table and a migration."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class OutboxConfig(AppConfig):
    """Makes `django_qless.outbox` an app."""

    name = "django_qless.outbox"
    label = "django_qless_outbox"
    verbose_name = _("Job queue: outbox")
    default_auto_field = "django.db.models.BigAutoField"
