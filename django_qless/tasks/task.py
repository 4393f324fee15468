"""Django's Task with options of ours: `@task(retries=3, timeout=30)`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from django_qless.exceptions import InvalidOption
from django_qless.options import must_suit_a_call
from django_qless.tasks import frameworks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from django.tasks.base import Task
    from typing_extensions import Self

    from django_qless.options import Backoff, Factory, Unique
else:
    _framework = frameworks.primary()
    Task = object if _framework is None else _framework.base.Task


@dataclass(frozen=True, kw_only=True, repr=False)
class QlessTask(Task):  # type: ignore[type-arg]
    """A Task with the options that `@job` has, too. None: as the backend's OPTIONS say."""

    aliases: Sequence[str] | None = None
    retries: int | None = None
    backoff: Backoff = None
    retry_on: Sequence[type[BaseException] | str] | None = None
    fail_on: Sequence[type[BaseException] | str] | None = None
    timeout: float | timedelta | None = None
    hard_timeout: float | timedelta | None = None
    middleware: Sequence[str | Factory] | None = None
    tags: Sequence[str] | None = None
    expires: float | timedelta | datetime | None = None
    result_ttl: int | None = None
    unique: Unique = None
    unique_for: str | float | timedelta | None = None
    on_conflict: str | None = None
    debounce: float | timedelta | None = None
    debounce_max: float | timedelta | None = None
    after: Any = None
    """Handles of jobs, or results of Tasks, that must be complete first."""
    after_jids: Sequence[str] | None = None
    on_failure: str | None = None
    sensitive: bool | str | Sequence[str] | None = None
    enqueue_on_commit: bool | str | None = None

    def __post_init__(self) -> None:
        """Have the backend judge it, our options among the rest. Raises InvalidTask."""
        super().__post_init__()
        options_of = getattr(self.get_backend(), "options_of", None)
        if options_of is not None:
            options_of(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Any,
    ) -> Self:
        """Return a copy with these options, ours among them. None: as it is."""
        for name in options:
            if name not in OURS:
                raise TypeError(
                    f"{self.module_path}: using() has no option {name!r}. There are "
                    f"priority, queue_name, run_after, backend, {', '.join(OURS)}."
                )
        try:
            must_suit_a_call(self.module_path, options)
        except InvalidOption as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None
        options |= {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
        }
        changes = {name: each for name, each in options.items() if each is not None}
        return replace(self, **changes)


_OF_DJANGO = "func priority backend queue_name run_after takes_context".split()

#: What a QlessTask has that a Task has not.
OURS = tuple(f.name for f in fields(QlessTask) if f.name not in _OF_DJANGO)


def options_in(task: Any) -> dict[str, Any]:
    """Return the options of ours that a Task has, by the names that `@job` gives them."""
    if not isinstance(task, QlessTask):
        return {}
    given = {name: getattr(task, name) for name in OURS if name != "aliases"}
    given = {name: each for name, each in given.items() if each is not None}
    if "enqueue_on_commit" in given:
        given["on_commit"] = given.pop("enqueue_on_commit")
    if "after" in given:
        handles, jids = _sorted_out(given.pop("after"))
        given["after"] = handles
        given["after_jids"] = [*jids, *given.get("after_jids", ())]
    return given


def _sorted_out(after: Any) -> tuple[list[Any], list[str]]:
    """Return the handles among these, and the ids of those that are results of Tasks."""
    many = list(after) if isinstance(after, (list, tuple)) else [after]
    results = [each for each in many if _is_result(each)]
    handles = [each for each in many if not _is_result(each)]
    return handles, [each.id for each in results]


def _is_result(value: object) -> bool:
    return any(isinstance(value, each.base.TaskResult) for each in frameworks.in_use())
