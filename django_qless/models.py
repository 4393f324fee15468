"""Models without tables that give the admin pages URLs, permissions and log entries.

The pages read everything that they show from the server of the queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.db.models import QuerySet


class EmptyManager(models.Manager[Any]):
    """A manager without rows, so that dumpdata and others do not fail."""

    def get_queryset(self) -> QuerySet[Any]:
        """Return a queryset that never asks a database."""
        rows: QuerySet[Any] = super().get_queryset().none()
        return rows


class PageModel(models.Model):
    """An object of the pages, by its name."""

    name = models.TextField(_("name"), primary_key=True)

    objects: ClassVar[models.Manager[Any]] = EmptyManager()

    class Meta:
        abstract = True
        managed = False
        default_permissions = ()
        base_manager_name = "objects"

    def __str__(self) -> str:
        return self.name


class Overview(PageModel):
    """All queues of an alias at a glance."""

    class Meta(PageModel.Meta):
        verbose_name = verbose_name_plural = _("overview")
        permissions = [("view", "Can see queues, jobs and workers")]


class Queue(PageModel):
    """A queue."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("queue"), _("queues")
        permissions = [("act_on_queues", "Can pause, empty and limit queues")]


class Job(PageModel):
    """A job, by its jid."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("job"), _("jobs")
        permissions = [
            ("view_data", "Can see arguments, results and errors of jobs"),
            ("act_on_jobs", "Can retry, cancel, move and change jobs"),
        ]


class Entity(PageModel):
    """The entities of a queue, by the queue's name."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("entity"), _("entities")


class Failure(PageModel):
    """A group of failed jobs."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("failure group"), _("failures")


class Worker(PageModel):
    """A worker."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("worker"), _("workers")
        permissions = [("act_on_workers", "Can quiet, resume and stop workers")]


class Recurring(PageModel):
    """A schedule, by its id."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("recurring job"), _("recurring jobs")
        permissions = [("act_on_recurring", "Can run, pause and change recurring jobs")]


class Tracked(PageModel):
    """The jobs that users track."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("tracked job"), _("tracked jobs")


class Tag(PageModel):
    """A tag of jobs."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("tag"), _("tags")


class Option(PageModel):
    """An option of the core."""

    class Meta(PageModel.Meta):
        verbose_name, verbose_name_plural = _("option"), _("config")
        permissions = [("act_on_config", "Can change options")]
