"""QlessTask, `@task(retries=3, timeout=30)`, and the OPTIONS of a QlessBackend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from django_qless.exceptions import InvalidOption
from django_qless.job_types.option_table import In
from django_qless.job_types.options import (
    ONLY_DECLARED,
    TABLE,
    Options,
    check_using,
    given_in,
)
from django_qless.tasks import frameworks

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Self

    from django.tasks.base import Task

else:
    _framework = frameworks.installed()
    Task = object if _framework is None else _framework.base.Task


#: The options of `@job` that a QlessTask has beside those of a Task.
OURS = (
    "aliases",
    *(name for name, row in TABLE.items() if In.TASK in row.given),
    "enqueue_on_commit",
)


def _with_options(cls: type[Task]) -> type[Task]:  # type: ignore[type-arg]
    """Add our options to the fields of a future dataclass; all are None by default."""
    cls.__annotations__ = dict.fromkeys(OURS, Any)
    for name in OURS:
        setattr(cls, name, None)
    return cls


@dataclass(frozen=True, kw_only=True, repr=False)
@_with_options
class QlessTask(Task):  # type: ignore[type-arg]
    """A Task with the options that `@job` has, too. None: as in the backend's OPTIONS.

    They are given to `@task(…)` or to `using(…)`, and are attributes of the Task.
    `after` may name results of Tasks as well as handles of jobs; `enqueue_on_commit` is
    False (the default), True or a database.
    """

    def __post_init__(self) -> None:
        """Let the backend validate it, our options included. Raises InvalidTask."""
        super().__post_init__()
        options_of = getattr(self.get_backend(), "options_of", None)
        if options_of is not None:
            options_of(self)

    def get_backend(self) -> Any:
        """Return its backend, which reads results in the alias of the Task's queue."""
        backend = super().get_backend()
        for_queue = getattr(backend, "for_queue", None)
        return backend if for_queue is None else for_queue(self.queue_name)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Any,
    ) -> Self:
        """Return a copy with these options, ours included; None leaves one as it is."""
        for name in options:
            if name not in OURS:
                raise TypeError(
                    f"{self.module_path}: using() has no option {name!r}. There are "
                    f"priority, queue_name, run_after, backend, {', '.join(OURS)}."
                )
        try:
            in_code = ONLY_DECLARED & options.keys()
            check_using(self.module_path, {name: options[name] for name in in_code})
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


def options_in(task: Any) -> dict[str, Any]:
    """Return the options of `@job` that a Task has."""
    if not isinstance(task, QlessTask):
        return {}
    given = {name: getattr(task, name) for name in OURS if name != "aliases"}
    given = {name: each for name, each in given.items() if each is not None}
    if "enqueue_on_commit" in given:
        given["on_commit"] = given.pop("enqueue_on_commit")
    if "after" in given:
        after = given["after"]
        many = after if isinstance(after, (list, tuple)) else [after]
        given["after"] = [each.id if _is_result(each) else each for each in many]
    return given


def _is_result(value: object) -> bool:
    return isinstance(value, frameworks.required().base.TaskResult)


# Options of `@job` that a backend may set for all its Tasks.
DEFAULTS = given_in(In.BACKEND)
BACKEND_OPTIONS = frozenset({"alias", "enqueue_on_commit", "TASK_MODULES"})
KNOWN = DEFAULTS | BACKEND_OPTIONS


class Problem(NamedTuple):
    """A mistake in OPTIONS, and its remedy."""

    text: str
    hint: str


class BackendOptions:
    """OPTIONS of one backend; mistakes in them are kept, not raised.

    A backend is made when a module with Tasks is imported. If that failed, so would the
    system check that reports the mistake.
    """

    def __init__(self, options: Any) -> None:
        self.problems: list[Problem] = []
        if not isinstance(options, Mapping):
            self.problems.append(
                Problem(
                    f"OPTIONS must be a dict, not {options!r}.", 'Write "OPTIONS": {}.'
                )
            )
            options = {}
        self.problems += _unknown(options)
        #: None: QLESS_ROUTES says which alias a Task's queue is in.
        self.alias: str | None = options.get("alias")
        self.modules = self._modules(options.get("TASK_MODULES", ()))
        self.defaults = self._defaults(options)

    def _modules(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, (list, tuple, set, frozenset)) and all(
            isinstance(each, str) and each for each in value
        ):
            return tuple(value)
        self.problems.append(
            Problem(
                f"TASK_MODULES must be a list of modules, not {value!r}.",
                'For example ["shop_plugins.tasks"]; what lies inside counts, too.',
            )
        )
        return ()

    def _defaults(self, options: Mapping[str, Any]) -> Options:
        """Return the default options of the backend's jobs."""
        # Django's contract runs a Task once, and at once.
        defaults = Options(retries=0, on_commit=False)
        given = {name: options[name] for name in DEFAULTS & options.keys()}
        if "alias" in options:
            given["alias"] = options["alias"]
        if "enqueue_on_commit" in options:
            given["on_commit"] = options["enqueue_on_commit"]
        for name, value in given.items():
            try:
                defaults = defaults.with_checked("OPTIONS", **{name: value})
            except InvalidOption as error:
                text = str(error).replace("on_commit", "enqueue_on_commit")
                self.problems.append(Problem(text, "See the options of @job."))
        try:
            return defaults.changed("OPTIONS")
        except InvalidOption as error:
            self.problems.append(Problem(str(error), "See the options of @job."))
            return Options(retries=0, on_commit=False)


def _unknown(options: Mapping[str, Any]) -> Iterator[Problem]:
    for name in options:
        if name not in KNOWN:
            near = get_close_matches(str(name), KNOWN, n=1)
            yield Problem(
                f"OPTIONS: there is no option {name!r}.",
                f"Did you mean {near[0]!r}?"
                if near
                else f"The options are {', '.join(sorted(KNOWN))}.",
            )
