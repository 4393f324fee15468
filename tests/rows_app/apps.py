from __future__ import annotations

from django.apps import AppConfig


class RowsAppConfig(AppConfig):
    name = "tests.rows_app"
    label = "rows_app"
    default_auto_field = "django.db.models.BigAutoField"
