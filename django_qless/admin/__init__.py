"""The admin pages: registered on Django's default site; `register(site)` for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from django_qless import models
from django_qless.admin.mixin import JobsAdminMixin
from django_qless.admin.site import EntryAdmin

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

__all__ = ["JobsAdminMixin", "register"]

PAGES = {
    models.Overview: "overview",
    models.Queue: "queues",
    models.Job: "jobs",
    models.Entity: "entities",
    models.Failure: "failures",
    models.Worker: "workers",
    models.Recurring: "recurring",
    models.Tracked: "tracked",
    models.Tag: "tags",
    models.Option: "config",
}
"""The modules of the pages, by the model that gives them their place in the menu."""


def register(site: AdminSite) -> None:
    """Show the pages in an admin site; the default one has them already."""
    for model, pages in PAGES.items():
        if not site.is_registered(model):
            site.register(model, EntryAdmin, pages=pages)


register(admin.site)
