"""Jobs that can be put, and that no worker will know: said where they are put."""

from __future__ import annotations

import logging

from django.apps import apps
from django.conf import settings

from django_qless import discovery
from django_qless.places import at, module_of
from django_qless.registry import Binding, JobType
from django_qless.servers import in_tests

logger = logging.getLogger("django_qless")

_judged: set[JobType] = set()


def warn_if_unfound(job_type: JobType) -> None:
    """Log a warning, once for each job, if workers will not know it."""
    if job_type in _judged:
        return
    _judged.add(job_type)
    reason = why_unfound(job_type)
    if reason:
        logger.warning("%s%s: %s", job_type.name, at(job_type.function), reason)


def why_unfound(job_type: JobType) -> str:
    """Return why no worker will know this job, and the remedy; "" if one will."""
    if not apps.is_installed("django_qless"):
        return (
            "django_qless is not in INSTALLED_APPS, so there is no worker to run it: "
            "add it there"
        )
    # Models are loaded by Django, Tasks by their own rules, and tests run jobs of theirs.
    if (
        job_type.on_something
        or job_type.binding is Binding.TASK
        or in_tests.is_testing()
    ):
        return ""
    module = module_of(job_type.function)
    if discovery.finds(module):
        return ""
    names = getattr(settings, "QLESS_MODULES", discovery.MODULES)
    return (
        f"workers import {' and '.join(names)} of the apps in INSTALLED_APPS, and "
        f"{module} is neither one of them nor imported there, so they will not know "
        "it: move it, or import it there"
    )
