"""The request to a page, at one moment."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory

from django_qless import models
from django_qless.admin.views import View

NOW = 100_000.5


def view(path: str = "/jobs/") -> View:
    """Return a request to a page."""
    request = RequestFactory().get(path)
    request.user = AnonymousUser()
    found = View(admin.site._registry[models.Job], request)
    found.now = NOW
    return found
