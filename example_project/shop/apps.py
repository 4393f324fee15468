from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Orders, prices and exports: jobs in order, at a rate, and in turns."""

    name = "shop"
    verbose_name = "Shop"
