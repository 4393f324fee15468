"""The backend for Django's TASKS setting.

    TASKS = {"default": {"BACKEND": "django_qless.tasks.QlessBackend"}}

It serves django.tasks where Django has it (6.0 and newer), else the backport django-tasks.
Where neither is installed this module can be imported all the same, and the backend says what
is missing when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_qless.tasks import frameworks

if TYPE_CHECKING or frameworks.installed() is not None:
    from django_qless.tasks.backend import QlessBackend
    from django_qless.tasks.task import QlessTask

    __all__ = ["QlessBackend", "QlessTask"]
else:
    __all__ = ["QlessBackend"]

    class QlessBackend:
        """Stands for the backend where there are no Tasks."""

        def __init__(self, alias: str, params: dict[str, Any]) -> None:
            raise ImproperlyConfigured(frameworks.MISSING)
