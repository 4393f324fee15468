"""Rows of jobs that no server has, and the request to a page that shows them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory

from django_qless import models
from django_qless.admin.components.job_table import JobRow, job_row
from django_qless.admin.views import View
from django_qless.core import Brief

NOW = 100_000.5


def view(path: str = "/jobs/") -> View:
    """Return a request to a page, at one moment."""
    request = RequestFactory().get(path)
    request.user = AnonymousUser()
    found = View(admin.site._registry[models.Job], request)
    found.now = NOW
    return found


def row(**members: Any) -> JobRow:
    """Return the row of a job that waits, but for these members."""
    waits: dict[str, Any] = {
        "jid": "j",
        "klass": "shop.jobs.send",
        "queue": "mail",
        "state": "waiting",
        "priority": 0,
        "retries": 5,
        "remaining": 5,
        "tags": (),
        "worker": "",
        "put": 1.0,
        "since": NOW - 180,
        "due": None,
        "expires": 0.0,
        "group": None,
        "progress": None,
        "workflow": None,
        "spawned_from": None,
        "tracked": False,
    }
    return job_row(Brief(**{**waits, **members}), view())
