"""A router of databases."""

from __future__ import annotations

from typing import Any

from django.db import models

from tests.jobs_app.models import Parcel


class Replica:
    """Parcels that were made here are read there, and written here."""

    def db_for_read(self, model: type[models.Model], **hints: Any) -> str | None:
        return "other" if model is Parcel and "instance" not in hints else None

    def db_for_write(self, model: type[models.Model], **hints: Any) -> str | None:
        row = hints.get("instance")
        here = model is Parcel and Parcel._base_manager.using("default")
        return "default" if row and here and here.filter(pk=row.pk).exists() else None
