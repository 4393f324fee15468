"""Times that a project gives, read by its settings USE_TZ and TIME_ZONE."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.utils.timezone import get_default_timezone


class UnclearTime(ValueError):
    """It is not clear which time is meant; the text completes "must be …"."""


def in_utc(value: datetime) -> datetime:
    """Return a time in UTC. One without a zone is in TIME_ZONE if USE_TZ is False.

    Raises UnclearTime for one without a zone if USE_TZ is True.
    """
    if value.utcoffset() is None:
        if settings.USE_TZ:
            raise UnclearTime("an aware datetime, as django.utils.timezone.now() gives")
        value = value.replace(tzinfo=get_default_timezone())
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise UnclearTime("within the years 1 to 9999, also in UTC") from None
