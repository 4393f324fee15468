"""Orders as entities, and what the jobs of the shop leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.utils import timezone

from django_qless import Fail, job


class Order(models.Model):
    """An order, of which another system sends one version after the other."""

    number = models.CharField(max_length=20, unique=True)
    version = models.PositiveIntegerField(default=0)
    total = models.IntegerField(default=0)
    payloads = models.PositiveIntegerField(default=0, editable=False)
    runs = models.PositiveIntegerField(default=0, editable=False)
    synced_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.number

    @job("orders", entity=True)
    def sync(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Brings the order up to date with all versions that have come meanwhile.

        No other worker has this order now, so it needs no lock of its own. The lowest
        version comes first. A version without a total is tried again later; with one
        below zero it is no version at all, and goes to the dead.
        """
        for payload in payloads:
            if payload["total"] is None:
                raise ValueError(f"version {payload['version']} has no total yet")
            if payload["total"] < 0:
                raise Fail("negative-total", f"the total is {payload['total']}")
        latest = payloads[-1]
        Order.objects.filter(pk=self.pk, version__lt=latest["version"]).update(
            version=latest["version"],
            total=latest["total"],
            payloads=models.F("payloads") + len(payloads),
            runs=models.F("runs") + 1,
            synced_at=timezone.now(),
        )


class Price(models.Model):
    """What a supplier wanted for an article when it was asked."""

    article = models.CharField(max_length=50)
    cents = models.PositiveIntegerField()
    fetched_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.article}: {self.cents / 100:.2f}"


class Export(models.Model):
    """A file that a tenant has asked for, and when it was made."""

    tenant = models.CharField(max_length=50)
    number = models.PositiveIntegerField()
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.tenant}, {self.number}"
