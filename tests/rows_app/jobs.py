"""Functions that are jobs, with rows as arguments, and after each other."""

from __future__ import annotations

from typing import Any

from django.db import connections

from django_qless import job

done: list[str] = []


@job
def keys_of(*rows: Any, **named: Any) -> list[Any]:
    return [[row.pk for row in rows], {name: row.pk for name, row in named.items()}]


@job(missing="ignore")
def quietly(rows: list[Any]) -> int:
    return len(rows)


@job
def fails_by_itself() -> None:
    connections["gone"].ensure_connection()


@job("nights")
def collect() -> None:
    done.append("collect")


@job("nights", after="collect")
def summarise(day: str = "today") -> None:
    done.append(f"summarise {day}")


@job("nights", after="rows_app.Source.fetch_all")
def compare() -> None:
    done.append("compare")
