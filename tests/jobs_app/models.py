"""Models with jobs on them: concrete, abstract, mixed in, proxy, inherited, keyed."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models

from django_qless import current_job, job


class Greeting:
    """A mixin that is no model."""

    @job("greetings")
    def greet(self, *, word: str = "hello") -> str:
        return f"{word} {self}"


class Timed(models.Model):
    """An abstract model."""

    checks = models.IntegerField(default=0)

    class Meta:
        abstract = True

    @job("checks", priority=3, tags=["check"])
    def check_now(self, by: int = 1) -> int:
        type(self)._base_manager.filter(pk=self.pk).update(
            checks=models.F("checks") + by
        )
        self.refresh_from_db()
        return self.checks

    @classmethod
    @job("checks")
    def check_all(cls, by: int = 1) -> str:
        cls._base_manager.update(checks=models.F("checks") + by)
        return cls._meta.label


class FeedSet(models.QuerySet["Feed"]):
    def active(self) -> FeedSet:
        """Those that have a body."""
        return self.exclude(body="")

    def titled(self, title: str) -> FeedSet:
        return self.filter(title=title)


class Feed(Greeting, Timed):
    title = models.CharField(max_length=50, default="feed")
    body = models.TextField(default="")

    objects = FeedSet.as_manager()

    def __str__(self) -> str:
        return self.title

    @job("feeds", retries=5)
    def rename(self, title: str) -> str:
        self.title = title
        self.save()
        return title

    @job
    def merge(self, other: Feed) -> list[Any]:
        return [self.pk, other.pk, other.title, other._state.db]

    @staticmethod
    @job("feeds")
    def count_words(text: str) -> int:
        return len(text.split())

    @job("feeds", sensitive=["password", "rest"])
    def log_in(self, user: str, password: str, *rest: str, note: str = "") -> str:
        return f"{user} in {self.title}"

    @job
    async def atitle(self) -> str:
        fresh = await Feed.objects.aget(pk=self.pk)
        return str(fresh.title)

    @job
    def my_jid(self) -> str:
        running = current_job()
        assert running is not None
        return running.jid


class ProxyFeed(Feed):
    class Meta:
        proxy = True


class NewsFeed(Feed):
    """A child with a table of its own, and a method of its own."""

    country = models.CharField(max_length=2, default="")

    @job("news", name="news.rename")
    def rename(self, title: str) -> str:
        return "news: " + super().rename(title)


class QuietFeed(Feed):
    """A child for which a job is none."""

    def merge(self, other: Feed) -> list[Any]:  # type: ignore[override]
        return []


class Parcel(models.Model):
    """A primary key of its own kind."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)

    def __str__(self) -> str:
        return str(self.id)

    @job
    def send(self) -> str:
        return f"sent {self.pk}"

    @job("parcels", entity=True, retries=0, backoff=0)
    def track(self, payloads: list[Any]) -> None:
        """Get what was pushed for this parcel."""
        tracked.append((self.pk, payloads))


#: What Parcel.track got.
tracked: list[Any] = []
