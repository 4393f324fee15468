"""Rows, each of which owes one run of a job."""

from __future__ import annotations

import os
from collections.abc import Callable

from django.db import connection, models

from django_qless import job


class Order(models.Model):
    """What a producer has committed."""

    number = models.IntegerField(primary_key=True)
    producer = models.CharField(max_length=20)

    def __str__(self) -> str:
        return f"{self.producer} {self.number}"


@job("orders", on_commit="outbox", name="ship")
def ship(producer: str, number: int) -> None:
    """Write the run down, where nothing that dies takes it away."""
    note(producer, number)


@job("orders")
def tell_backend() -> None:
    """Write down this process and the process of the database that serves it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid(), pg_sleep(0.02)")
        note(os.getpid(), cursor.fetchone()[0])


def asks_early(call: Callable[..., object]) -> Callable[..., object]:
    """A middleware that asks the database when it is loaded."""
    Order.objects.exists()
    return call


def note(*words: object) -> None:
    end = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(end, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(end)
