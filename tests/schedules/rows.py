"""Schedules of rows: which there are, and rows that vanish unnoticed."""

from __future__ import annotations

from django.db import connection

from django_qless import recurring


def ids() -> list[str]:
    return sorted(handle.id for handle in recurring)


def vanish(row) -> None:
    """Delete the row past Django."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {row._meta.db_table} WHERE id = %s", [row.pk])
