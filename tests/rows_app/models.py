"""Models with primary keys of all kinds, and with jobs that come after each other."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models, transaction

from django_qless import current_job, job


class Country(models.Model):
    """A text as primary key."""

    code = models.CharField(max_length=2, primary_key=True)

    def __str__(self) -> str:
        return self.code

    @job
    def greet(self) -> str:
        return f"hello {self.code}"


class Capital(models.Model):
    """Another row's primary key as its own."""

    country = models.OneToOneField(Country, models.CASCADE, primary_key=True)
    name = models.CharField(max_length=20, default="")

    def __str__(self) -> str:
        return self.name

    @job
    def greet(self) -> str:
        return f"hello {self.name} of {self.country_id}"


class Seat(models.Model):
    """A primary key of two columns."""

    pk = models.CompositePrimaryKey("row", "number")
    row = models.CharField(max_length=1)
    number = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.row}{self.number}"

    @job
    def reserve(self, *others: Seat) -> list[str]:
        return [str(seat) for seat in (self, *others)]


class Stamp(models.Model):
    """Bytes, which JSON does not have, as primary key."""

    id = models.BinaryField(primary_key=True)

    def __str__(self) -> str:
        return bytes(self.id).hex()

    @job
    def press(self) -> str:
        return str(self)


class Wheel(models.Model):
    """A parent; its children have primary keys of their own."""

    size = models.IntegerField(default=26)

    def __str__(self) -> str:
        return f"{self.size}"

    @job
    def turn(self) -> list[Any]:
        return [type(self).__name__, self.pk, self.size]


class Spare(Wheel):
    """A child whose primary key is not that of its parent."""

    code = models.CharField(max_length=10, primary_key=True)
    wheel = models.OneToOneField(Wheel, models.CASCADE, parent_link=True)

    @job
    def turn(self) -> list[Any]:
        return ["spare", self.pk, self.size]


class Kept(models.Manager["Note"]):
    def get_queryset(self) -> models.QuerySet[Note]:
        return super().get_queryset().filter(deleted=False)


class Note(models.Model):
    """The default manager hides rows."""

    text = models.TextField(default="")
    count = models.IntegerField(default=0)
    deleted = models.BooleanField(default=False)

    objects = Kept()

    def __str__(self) -> str:
        return self.text

    @job
    def purge(self) -> str:
        return f"purged {self.text}"

    @job(missing="ignore", retries=5)
    def tidy(self) -> str:
        return "tidied"

    @job(missing="ignore")
    async def atidy(self) -> str:
        return "tidied"

    @job
    def add_one(self) -> int:
        """Lock the row, as one does who reads before writing."""
        with transaction.atomic(using=self._state.db):
            manager = Note._base_manager.using(self._state.db)
            row = manager.select_for_update().get(pk=self.pk)
            row.count += 1
            row.save()
        return row.count


class Swappable(models.Model):  # noqa: DJ008
    """Another model takes its place."""

    class Meta:
        swappable = "ROWS_APP_SWAPPABLE"

    @job
    def act(self) -> None:
        """Cannot be put."""


class Source(models.Model):
    """Its jobs come after each other."""

    title = models.CharField(max_length=20, default="")

    #: What has run, by the name of the job and the primary key.
    done: ClassVar[list[tuple[str, Any]]] = []

    def __str__(self) -> str:
        return self.title

    @job("sources", priority=7)
    def refresh(self, *, full: bool = False) -> str:
        self.done.append(("refresh", self.pk))
        return self.title

    @job("sources", after="refresh")
    def parse(self, page: int = 1) -> int:
        self.done.append(("parse", self.pk))
        return page

    @job("sources", after="parse")
    def publish(self) -> None:
        self.done.append(("publish", self.pk))

    @job("sources", after="refresh")
    def draw(self) -> None:
        self.done.append(("draw", self.pk))

    @job("sources", after=["parse", "draw"])
    def mail(self) -> None:
        self.done.append(("mail", self.pk))

    @classmethod
    @job("sources", unique=True)
    def fetch_all(cls) -> None:
        cls.done.append(("fetch_all", None))

    @classmethod
    @job("sources", after="fetch_all")
    def count_all(cls) -> None:
        cls.done.append(("count_all", None))

    @job("sources", after="fetch_all")
    def compare(self) -> None:
        self.done.append(("compare", self.pk))

    @job(
        "sources",
        unique=lambda self: f"{self.title}-x",
        concurrency_key=lambda self: self.title,
    )
    def own(self) -> None:
        self.done.append(("own", self.pk))

    @job("sources", after="own")
    def after_own(self) -> None:
        self.done.append(("after_own", self.pk))

    @job("sources")
    def begin(self, how: str = "") -> None:
        self.done.append(("begin", self.pk))
        running = current_job()
        if how == "delay":
            self.go_on.delay()
        elif how == "spawn" and running is not None:
            running.spawn([self.go_on.args()])

    @job("sources", after="begin")
    def go_on(self) -> None:
        self.done.append(("go_on", self.pk))


class Mirror(Source):
    class Meta:
        proxy = True

    @job("mirrors", after="refresh")
    def parse(self, page: int = 2) -> int:
        self.done.append(("mirrored", self.pk))
        return page
