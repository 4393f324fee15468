"""The installed frameworks of Tasks: django.tasks, its backport, or both.

Django has Tasks since 6.0; for earlier versions the package django-tasks has them, with
nearly the same names. A project on a newer Django may still import from the backport, so
both may be in use at once.
"""

from __future__ import annotations

import functools
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from django.conf import settings

CORE = "django.tasks"
BACKPORT = "django_tasks"

# The backport's other spellings.
_SPELLINGS = {
    "InvalidTask": ("InvalidTask", "InvalidTaskError"),
    "InvalidTaskBackend": ("InvalidTaskBackend", "InvalidTaskBackendError"),
}

MISSING = (
    "django_qless.tasks.QlessBackend needs Django's Tasks. Django has them since "
    "6.0; for earlier ones install the backport: pip install 'django-qless[tasks]'"
)


class Framework:
    """The modules of one framework, with the names of django.tasks."""

    def __init__(self, name: str) -> None:
        """Import it. Raises ImportError."""
        self.name = name
        self.package = import_module(name)
        self.base: Any = import_module(f"{name}.base")
        self.backends: Any = import_module(f"{name}.backends.base")
        self.signals: Any = import_module(f"{name}.signals")
        self.exceptions: ModuleType = import_module(f"{name}.exceptions")
        json = import_module("django.utils.json" if name == CORE else f"{name}.utils")
        self.normalize_json: Any = json.normalize_json

    @property
    def handler(self) -> Any:
        """The backends by alias."""
        return self.package.task_backends

    def exception(self, name: str) -> type[Exception]:
        """Return the exception with this name in django.tasks."""
        for spelling in _SPELLINGS.get(name, (name,)):
            found: type[Exception] | None = getattr(self.exceptions, spelling, None)
            if found is not None:
                return found
        raise AttributeError(name)


@functools.cache
def framework(name: str) -> Framework | None:
    """Return the framework of this name, or None if it is not installed."""
    try:
        return Framework(name)
    except ImportError:
        return None


def primary() -> Framework | None:
    """Return the framework of our backends: Django's own if it has one."""
    return framework(CORE) or framework(BACKPORT)


def in_use() -> list[Framework]:
    """Return the frameworks that this process has imported, Django's own first."""
    first = primary()
    found = [] if first is None else [first]
    if first is not None and first.name == CORE and BACKPORT in sys.modules:
        # Not imported for its own sake: it changes other classes when it is.
        second = framework(BACKPORT)
        if second is not None:
            found.append(second)
    return found


def register_checks() -> None:
    """Register the framework's system checks, if the project has the setting TASKS.

    Otherwise the first import of a module with Tasks would do it, which may come after
    the checks.
    """
    # LazySettings forwards this; its stubs do not know.
    first = primary() if settings.is_overridden("TASKS") else None  # type: ignore[misc]
    if first is not None:
        import_module(f"{first.name}.checks")


def of(task: Any) -> Framework | None:
    """Return the framework whose Task this is, or None if it is no Task."""
    for each in in_use():
        if isinstance(task, each.base.Task):
            return each
    return None


def error(name: str, text: str) -> Exception:
    """Return an exception of the class of this name in each framework in use."""
    return _combined(exceptions(name))(text)


def exceptions(*names: str) -> tuple[type[Exception], ...]:
    """Return the exceptions of these names in all frameworks in use."""
    return tuple(each.exception(name) for each in in_use() for name in names)


@functools.cache
def _combined(classes: tuple[type[Exception], ...]) -> type[Exception]:
    if len(classes) == 1:
        return classes[0]
    first = classes[0]
    return type(first.__name__, classes, {"__module__": first.__module__})
