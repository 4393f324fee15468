"""What the admin pages are about: menu entries and permissions, without any table.

Whatever a page shows it reads from the server of the queues. These models give Django
what it knows pages by: names for URLs, permissions, and entries in its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.db.models import QuerySet


class NoRows(models.Manager[Any]):
    """Finds nothing: dumpdata and others that ask every model are not to fail."""

    def get_queryset(self) -> QuerySet[Any]:
        """Return a queryset that never asks a database."""
        rows: QuerySet[Any] = super().get_queryset().none()
        return rows


class Entry(models.Model):
    """Something that pages show, by its name; str() is that name."""

    name = models.TextField(_("name"), primary_key=True)

    objects: ClassVar[models.Manager[Any]] = NoRows()

    class Meta:
        abstract = True
        managed = False
        default_permissions = ()
        base_manager_name = "objects"

    def __str__(self) -> str:
        return self.name


class Overview(Entry):
    """All queues of an alias at a glance."""

    class Meta(Entry.Meta):
        verbose_name = verbose_name_plural = _("overview")
        permissions = [("view", "Can see queues, jobs and workers")]


class Queue(Entry):
    """A queue."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("queue"), _("queues")
        permissions = [("act_on_queues", "Can pause, empty and limit queues")]


class Job(Entry):
    """A job, by its jid."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("job"), _("jobs")
        permissions = [
            ("view_data", "Can see arguments, results and errors of jobs"),
            ("act_on_jobs", "Can retry, cancel, move and change jobs"),
        ]


class Failure(Entry):
    """A group of failed jobs."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("failure group"), _("failures")


class Worker(Entry):
    """A worker."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("worker"), _("workers")
        permissions = [("act_on_workers", "Can quiet, resume and stop workers")]


class Recurring(Entry):
    """A schedule, by its id."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("recurring job"), _("recurring jobs")
        permissions = [("act_on_recurring", "Can run, pause and change recurring jobs")]


class Tracked(Entry):
    """The jobs that somebody follows."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("tracked job"), _("tracked jobs")


class Tag(Entry):
    """A tag of jobs."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("tag"), _("tags")


class Option(Entry):
    """An option of the core."""

    class Meta(Entry.Meta):
        verbose_name, verbose_name_plural = _("option"), _("config")
        permissions = [("act_on_config", "Can change options")]
