"""Admin pages for packages and their modules."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from codebase.models import Module, Package
from django_qless.admin.mixin import JobsAdminMixin


@admin.register(Package)
class PackageAdmin(JobsAdminMixin, admin.ModelAdmin):
    list_display = [
        "name",
        "root",
        "files",
        "lines",
        "complexity",
        "summarised_at",
        "jobs_link",
    ]
    actions = ["scan_again", "archive"]

    @admin.action(description="Scan again")
    def scan_again(self, request: HttpRequest, packages: QuerySet[Package]) -> None:
        for package in packages:
            package.summarise.delay()  # enqueues the scan first
        self.message_user(request, "Queued: a worker scans them as soon as one runs.")

    @admin.action(description="Archive")
    def archive(self, request: HttpRequest, packages: QuerySet[Package]) -> None:
        for package in packages:
            package.archive.delay()
        self.message_user(request, "Queued: each gets a process of its own.")


@admin.register(Module)
class ModuleAdmin(JobsAdminMixin, admin.ModelAdmin):
    list_display = [
        "path",
        "package",
        "lines",
        "functions",
        "classes",
        "complexity",
        "hardest",
        "hardest_complexity",
        "seconds",
        "measured_at",
        "jobs_link",
    ]
    list_filter = ["package", "measured_at"]
    search_fields = ["path", "hardest"]
    ordering = ["-hardest_complexity"]
