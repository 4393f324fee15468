"""Recurring jobs that the code declares, where SHOP_DECLARES is set."""

from __future__ import annotations

from django_qless import job
from shop.jobs import note


@job("both", every=1, missed="all")
def declared_tick():
    note()


@job("both", cron="* * * * *", missed="all")
def declared_cron():
    note()
