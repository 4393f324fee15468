"""Admin pages of the shop, with actions that enqueue its jobs."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from django_qless.admin.mixin import JobsAdminMixin
from shop.models import Export, Order, Price
from shop.trading import VERSIONS, ask_for_exports, ask_for_prices, push_new


@admin.register(Order)
class OrderAdmin(JobsAdminMixin, admin.ModelAdmin):
    list_display = [
        "number",
        "version",
        "total",
        "payloads",
        "runs",
        "synced_at",
        "jobs_link",
    ]
    actions = ["push_versions"]

    @admin.action(description=f"Push {VERSIONS} new versions")
    def push_versions(self, request: HttpRequest, orders: QuerySet[Order]) -> None:
        pushed = push_new(orders)
        self.message_user(request, f"Pushed {pushed:,} versions.")


@admin.register(Price)
class PriceAdmin(admin.ModelAdmin):
    list_display = ["article", "cents", "fetched_at"]
    list_filter = ["article"]
    actions = ["ask_again"]

    @admin.action(description="Ask for 200 prices")
    def ask_again(self, request: HttpRequest, prices: QuerySet[Price]) -> None:
        handles = ask_for_prices(200)
        self.message_user(request, f"Enqueued {len(handles):,} questions.")


@admin.register(Export)
class ExportAdmin(admin.ModelAdmin):
    list_display = ["tenant", "number", "made_at"]
    list_filter = ["tenant"]
    actions = ["ask_again"]

    @admin.action(description="Ask for the files of all tenants")
    def ask_again(self, request: HttpRequest, exports: QuerySet[Export]) -> None:
        handles = ask_for_exports(seconds=0.1)
        self.message_user(request, f"Enqueued {len(handles):,} exports.")
