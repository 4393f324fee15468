"""An admin site of a project's own, whose ModelAdmins show the jobs of their objects."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from django_qless.admin import register
from django_qless.admin.mixin import JobsAdminMixin
from tests.jobs_app.models import Feed, Parcel, ProxyFeed
from tests.rows_app.models import Country, Spare

site = admin.AdminSite(name="shop")
register(site)


@admin.register(Feed, site=site)
class FeedAdmin(JobsAdminMixin, admin.ModelAdmin):
    list_display = ["title", "jobs_link"]

    def get_queryset(self, request):
        return super().get_queryset(request).exclude(title="not for you")


@admin.register(ProxyFeed, site=site)
class ProxyFeedAdmin(JobsAdminMixin, admin.ModelAdmin):
    change_form_template = "own_change_form.html"


for model in (Parcel, Country, Spare):
    site.register(model, type("SomeAdmin", (JobsAdminMixin, admin.ModelAdmin), {}))

urlpatterns = [path("admin/", admin.site.urls), path("shop/", site.urls)]
