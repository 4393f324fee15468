"""The names of Django's Tasks, wherever they come from here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django

from django_qless.tasks import frameworks

# Before 6.0 the tests need the backport; it is among the packages for tests.
NAME = frameworks.CORE if django.VERSION >= (6, 0) else frameworks.BACKPORT

package: Any = import_module(NAME)
base: Any = import_module(f"{NAME}.base")
signals: Any = import_module(f"{NAME}.signals")
exceptions: Any = import_module(f"{NAME}.exceptions")

task = package.task
task_backends = package.task_backends
Status = base.TaskResultStatus
InvalidTask: type[Exception] = getattr(
    exceptions, "InvalidTask", getattr(exceptions, "InvalidTaskError", None)
)
InvalidTaskBackend: type[Exception] = getattr(
    exceptions,
    "InvalidTaskBackend",
    getattr(exceptions, "InvalidTaskBackendError", None),
)
TaskResultDoesNotExist: type[Exception] = exceptions.TaskResultDoesNotExist
TaskResultMismatch: type[Exception] = exceptions.TaskResultMismatch

IMMEDIATE = f"{NAME}.backends.immediate.ImmediateBackend"
QLESS = "django_qless.tasks.QlessBackend"
LOGGER = NAME

#: Our backend as the default one, and one of any queue.
TASKS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": QLESS, "QUEUES": ["default", "mail"]},
    "open": {"BACKEND": QLESS, "QUEUES": []},
}
