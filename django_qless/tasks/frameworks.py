"""The framework of Tasks that the project has: django.tasks, or else its backport.

Django has Tasks since 6.0; for earlier versions the package django-tasks has them, with
nearly the same names.
"""

from __future__ import annotations

import functools
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
    """The modules of the framework, with the names of django.tasks."""

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
def installed() -> Framework | None:
    """Return Django's own framework, else the backport, None without either."""
    for name in (CORE, BACKPORT):
        try:
            return Framework(name)
        except ImportError:
            continue
    return None


def required() -> Framework:
    """Return the framework where something of it is in use, so that there is one."""
    framework = installed()
    assert framework is not None
    return framework


def register_checks() -> None:
    """Register the framework's system checks, if the project has the setting TASKS.

    Otherwise the first import of a module with Tasks would do it, which may come after
    the checks.
    """
    # LazySettings forwards this; its stubs do not know.
    framework = installed() if settings.is_overridden("TASKS") else None  # type: ignore[misc]
    if framework is not None:
        import_module(f"{framework.name}.checks")


def is_task(value: object) -> bool:
    """Return whether a value is a Task."""
    framework = installed()
    return framework is not None and isinstance(value, framework.base.Task)


def error(name: str, text: str) -> Exception:
    """Return an exception of the framework's class of this name."""
    return required().exception(name)(text)
