"""Permissions of the admin pages: ordinary ones of Django, one for each concern."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpRequest

VIEW = "django_qless.view"
DATA = "django_qless.view_data"
JOBS = "django_qless.act_on_jobs"
QUEUES = "django_qless.act_on_queues"
RECURRING = "django_qless.act_on_recurring"
WORKERS = "django_qless.act_on_workers"
CONFIG = "django_qless.act_on_config"

ALL = (VIEW, DATA, JOBS, QUEUES, RECURRING, WORKERS, CONFIG)


class May:
    """The permissions of a request's user, for templates: `{% if may.jobs %}`."""

    def __init__(self, request: HttpRequest) -> None:
        has = request.user.has_perm
        self.view = has(VIEW)
        self.data = self.view and has(DATA)
        self.jobs = self.view and has(JOBS)
        self.queues = self.view and has(QUEUES)
        self.recurring = self.view and has(RECURRING)
        self.workers = self.view and has(WORKERS)
        self.config = self.view and has(CONFIG)
