"""Finds the jobs of a project: modules called `jobs` and `tasks` in its apps.

Models are loaded by Django itself. Other names are set by `QLESS_MODULES`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from django.apps import apps
from django.conf import settings

MODULES = ("jobs", "tasks")


class Failure(NamedTuple):
    """A module that could not be imported."""

    module: str
    error: Exception


def discover() -> list[str]:
    """Import all modules of jobs; return their names. Raises what they raise."""
    modules = list(_modules())
    for module in modules:
        import_module(module)
    return modules


def failures() -> Iterator[Failure]:
    """Import all modules of jobs and tell what went wrong."""
    for module in _modules():
        try:
            import_module(module)
        except Exception as error:  # noqa: BLE001  whatever a user's module may raise
            yield Failure(module, error)


def finds(module: str) -> bool:
    """Return whether a worker, which imports what is found, comes to know this module.

    It is found, or lies in a package that is, or one that is found uses something of it.
    What is imported in other ways is not seen.
    """
    whole, single = [*_modules()], []
    for app in apps.get_app_configs():
        whole.append(f"{app.name}.models")
        single += [app.name, f"{app.name}.apps"]
    if module in single or any(
        module == home or module.startswith(f"{home}.") for home in whole
    ):
        return True
    list(failures())
    itself = sys.modules.get(module, module)
    loaded = [vars(sys.modules[home]) for home in whole + single if home in sys.modules]
    return any(
        value is itself or getattr(value, "__module__", None) == module
        for members in loaded
        for value in list(members.values())
    )


def _modules() -> Iterator[str]:
    names = getattr(settings, "QLESS_MODULES", MODULES)
    for app in apps.get_app_configs():
        for name in names:
            module = f"{app.name}.{name}"
            if app.module is not None and find_spec(module) is not None:
                yield module
