"""Rows, each of which owes one run of a job."""

from __future__ import annotations

import os

from django.db import models

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
    end = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(end, f"{producer} {number}\n".encode())
    finally:
        os.close(end)
