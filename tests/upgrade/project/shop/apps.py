"""The app, whose cron schedules tick each second: the real ones are too slow to see."""

from __future__ import annotations

from django.apps import AppConfig


class EverySecond:
    """Answers as Cron does."""

    def next(self, after: float) -> int:
        """Return the next whole second."""
        return int(after // 1) + 1

    def last(self, after: float, until: float) -> int | None:
        """Return the last whole second of this time."""
        found = int(until // 1)
        return found if found > after else None


class ShopConfig(AppConfig):
    name = "shop"
    default = True

    def ready(self) -> None:
        from django_qless.worker import ticker

        ticker.cron_for = lambda *_: EverySecond()
