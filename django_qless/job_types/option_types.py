"""The options of `@job` and `.using()` as type checkers see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from django_qless.job_types.backoff import Exponential

if TYPE_CHECKING:
    from django_qless.job_types.handle import JobHandle
    from django_qless.schedules.timetable import Rows

#: Seconds for all retries, seconds for each, `exponential(…)`, or a function of the attempt and its
#: exception; None: `exponential()`.
Backoff = (
    float
    | Sequence[float]
    | Exponential
    | Callable[[int, BaseException], float | timedelta]
    | None
)

#: Classes of exceptions, or their dotted names.
Exceptions = type[BaseException] | str | Sequence[type[BaseException] | str]

#: One key for all jobs, or a function that makes it of a job's arguments; True: the
#: arguments themselves; None: the job is not unique.
Unique = bool | str | Callable[..., str | None] | None

#: The name of a parameter, or a function of a job's arguments; None: no key.
LimitKey = str | Callable[..., Any] | None


class CommonOptions(TypedDict, total=False):
    """Options of `@job` that a call may change."""

    alias: str | None
    priority: int
    retries: int
    backoff: Backoff
    timeout: float | timedelta | None
    hard_timeout: float | timedelta | None
    tags: Sequence[str]
    on_commit: bool | str | None
    result_ttl: int
    unique: Unique
    unique_for: Literal["waiting", "running"] | float | timedelta
    on_conflict: Literal["keep", "replace"]
    debounce: float | timedelta | None
    on_failure: Literal["block", "cancel", "run"]
    missing: Literal["fail", "ignore"]


class DeclaredOptions(CommonOptions, total=False):
    """The options of `@job`, apart from its queue."""

    name: str | None
    aliases: Sequence[str]
    entity: bool
    batch_size: int
    expires: float | timedelta | None
    retry_on: Exceptions
    fail_on: Exceptions
    after: str | Sequence[str]
    sensitive: bool | str | Sequence[str]
    detached: bool
    max_concurrency: int | None
    rate: str | None
    concurrency_key: LimitKey
    fair_by: LimitKey
    every: float | timedelta | None
    cron: str | None
    timezone: str | tzinfo | None
    rows: Rows | None
    missed: Literal["all", "last", "none"] | None


class CallOptions(CommonOptions, total=False):
    """The options of `.using()`."""

    queue: str
    delay: float | timedelta
    expires: float | timedelta | datetime | None
    after: JobHandle[Any] | str | Sequence[JobHandle[Any] | str]
    jid: str | None
    run_at: datetime | None
    app_data: Mapping[str, Any] | None
