"""Messages of the system checks, by their numbers."""

from __future__ import annotations

from django.core.checks import Error
from django.core.checks import Warning as Caution


def error(number: str, text: str, hint: str | None = None) -> Error:
    """Return the error `django_qless.<number>`; `hint` is the remedy."""
    return Error(text, hint=hint, id=f"django_qless.{number}")


def caution(number: str, text: str, hint: str | None = None) -> Caution:
    """Return the warning `django_qless.<number>`; `hint` is the remedy."""
    return Caution(text, hint=hint, id=f"django_qless.{number}")
