"""The options of `@job` and `.using()` for type checkers: names, and what each may be.

What they mean is said in `Options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from django_qless.options import Backoff, Exceptions, Factory, Unique
    from django_qless.schedules.timetable import Rows


class CommonOptions(TypedDict, total=False):
    """Options of `@job` that a call may change."""

    alias: str
    priority: int
    delay: float | timedelta
    retries: int
    backoff: Backoff
    timeout: float | timedelta | None
    hard_timeout: float | timedelta | None
    tags: Sequence[str]
    on_commit: bool | str | None
    result_ttl: int
    unique: Unique
    unique_for: Literal["waiting", "running"] | float | timedelta
    on_conflict: Literal["keep", "replace", "refuse"]
    debounce: float | timedelta | None
    debounce_max: float | timedelta | None
    on_failure: Literal["block", "cancel", "run"]
    missing: Literal["fail", "ignore"]


class DeclaredOptions(CommonOptions, total=False):
    """The options of `@job` beside its queue."""

    name: str | None
    aliases: Sequence[str]
    middleware: Sequence[str | Factory]
    expires: float | timedelta | None
    retry_on: Exceptions
    fail_on: Exceptions
    after: str | Sequence[str]
    sensitive: bool | str | Sequence[str]
    every: float | timedelta | None
    cron: str | None
    timezone: str | tzinfo | None
    rows: Rows | None
    offset: float | timedelta | None
    missed: Literal["all", "last", "none"] | None


class CallOptions(CommonOptions, total=False):
    """The options of `.using()`."""

    queue: str
    expires: float | timedelta | datetime | None
    after: str | Sequence[Any]
    after_jids: Sequence[str]
    jid: str | None
    run_at: datetime | None
    app_data: Mapping[str, Any] | None
