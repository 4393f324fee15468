"""The setting QLESS_MONITORING_TOKEN: who may read the URLs for machines."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

from django.conf import settings

from django_qless.conf.setting_checks import Problem

NAME = "QLESS_MONITORING_TOKEN"

#: Fewer characters could be guessed.
SHORTEST = 16

REMEDY = (
    'Make one with python -c "import secrets; print(secrets.token_urlsafe())", and keep '
    "it out of the code."
)


def tokens() -> tuple[str, ...]:
    """Return the valid tokens; none if the setting is missing, empty or wrong."""
    if any(token_problems()):
        return ()
    value = getattr(settings, NAME, None) or ()
    return (value,) if isinstance(value, str) else tuple(value)


def is_token(given: str) -> bool:
    """Return whether this is a valid token, in a time that tells nothing of it."""
    found = [hmac.compare_digest(given.encode(), token.encode()) for token in tokens()]
    return any(found)


def token_problems() -> Iterator[Problem]:
    """Yield what is wrong with the setting. Tokens themselves are not shown."""
    value = getattr(settings, NAME, None)
    if value is None or value == "":
        return
    each = [value] if isinstance(value, str) else value
    if not isinstance(each, (list, tuple)) or not all(
        isinstance(token, str) for token in each
    ):
        yield Problem(
            f"{NAME} must be a text, or a list of texts.",
            "A list is for the days in which an old token is replaced by a new one.",
            "E044",
        )
        return
    for token in each:
        if len(token) < SHORTEST or not token.isascii() or not token.isprintable():
            yield Problem(
                f"{NAME}: a token of {len(token)} characters must be at least {SHORTEST} "
                "printable ASCII characters.",
                REMEDY,
                "E044",
            )
