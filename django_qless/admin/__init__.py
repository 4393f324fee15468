"""The admin pages: registered on Django's default site; `register(site)` for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from django_qless import models
from django_qless.admin.mixin import JobsAdminMixin
from django_qless.admin.pages.config import OptionAdmin
from django_qless.admin.pages.entities import EntityAdmin
from django_qless.admin.pages.failures import FailureAdmin
from django_qless.admin.pages.jobs import JobAdmin
from django_qless.admin.pages.overview import OverviewAdmin
from django_qless.admin.pages.queues import QueueAdmin
from django_qless.admin.pages.recurring import RecurringAdmin
from django_qless.admin.pages.tags import TagAdmin
from django_qless.admin.pages.tracked import TrackedAdmin
from django_qless.admin.pages.workers import WorkerAdmin

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

__all__ = ["JobsAdminMixin", "register"]

ADMINS = {
    models.Overview: OverviewAdmin,
    models.Queue: QueueAdmin,
    models.Job: JobAdmin,
    models.Entity: EntityAdmin,
    models.Failure: FailureAdmin,
    models.Worker: WorkerAdmin,
    models.Recurring: RecurringAdmin,
    models.Tracked: TrackedAdmin,
    models.Tag: TagAdmin,
    models.Option: OptionAdmin,
}
"""The pages, by the model that gives them their place in the menu."""


def register(site: AdminSite) -> None:
    """Show the pages in an admin site; the default one has them already."""
    for model, model_admin in ADMINS.items():
        if not site.is_registered(model):
            site.register(model, model_admin)


register(admin.site)
