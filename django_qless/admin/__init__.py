"""The admin pages: registered on Django's default site; `register(site)` for others."""

from __future__ import annotations

from django.contrib import admin

from django_qless.admin.mixin import JobsAdminMixin
from django_qless.admin.registration import register

__all__ = ["JobsAdminMixin", "register"]

register(admin.site)
