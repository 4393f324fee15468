"""Finds the jobs of a project: modules called `jobs` and `tasks` in its apps.

Models are loaded by Django itself. Other names are set by `QLESS_MODULES`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from django.apps import apps
from django.conf import settings

from django_qless.conf import in_tests
from django_qless.job_types.imports import DJANGO_START, reaches
from django_qless.job_types.registry import Binding, JobType
from django_qless.job_types.source_location import at, module_of

logger = logging.getLogger("django_qless")

MODULES = ("jobs", "tasks")

#: Job types for which `warn_if_undiscovered` has looked.
warned: set[JobType] = set()


class ImportFailure(NamedTuple):
    """A module that could not be imported."""

    module: str
    error: Exception


def discover() -> list[str]:
    """Import all modules of jobs; return their names. Raises what they raise."""
    modules = list(_modules())
    for module in modules:
        import_module(module)
    return modules


def import_failures() -> Iterator[ImportFailure]:
    """Import all modules of jobs and tell what went wrong."""
    for module in _modules():
        try:
            import_module(module)
        except Exception as error:  # noqa: BLE001  whatever a user's module may raise
            yield ImportFailure(module, error)


def is_known_to_workers(job_type: JobType) -> bool:
    """Return whether a worker, which imports what is found, declares this job, too.

    Here the module of the job may have been imported by a view, say, before one of those
    that workers import did the same: then the source of these is searched.
    """
    homes = [*_modules()]
    for app in apps.get_app_configs():
        homes += [app.name, f"{app.name}.apps", f"{app.name}.models"]
    if not job_type.importers.isdisjoint([DJANGO_START, *homes]):
        return True
    list(import_failures())
    return reaches(homes, module_of(job_type.function))


def warn_if_undiscovered(job_type: JobType) -> None:
    """Log a warning, once for each job, if workers will not know it."""
    if job_type in warned:
        return
    warned.add(job_type)
    reason = why_undiscovered(job_type)
    if reason:
        logger.warning("%s%s: %s", job_type.name, at(job_type.function), reason)


def why_undiscovered(job_type: JobType) -> str:
    """Return why workers will not know this job, and the remedy; "" if they will."""
    if not apps.is_installed("django_qless"):
        return (
            "django_qless is not in INSTALLED_APPS, so there is no worker to run it: "
            "add it there"
        )
    # Models are loaded by Django, Tasks by their own rules, and tests run jobs of theirs.
    if job_type.is_bound or job_type.binding is Binding.TASK or in_tests.is_testing():
        return ""
    if is_known_to_workers(job_type):
        return ""
    module = module_of(job_type.function)
    names = getattr(settings, "QLESS_MODULES", MODULES)
    return (
        f"workers import {' and '.join(names)} of the apps in INSTALLED_APPS, and "
        f"{module} is neither one of them nor imported there, so they will not know "
        "it: move it, or import it there"
    )


def _modules() -> Iterator[str]:
    names = getattr(settings, "QLESS_MODULES", MODULES)
    for app in apps.get_app_configs():
        for name in names:
            module = f"{app.name}.{name}"
            if app.module is not None and find_spec(module) is not None:
                yield module
