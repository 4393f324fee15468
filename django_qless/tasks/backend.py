"""QlessBackend: Django's Tasks as jobs of django_qless."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from django_qless import conf
from django_qless.arity import Arity
from django_qless.connections import connections
from django_qless.core.exceptions import BadArgument
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.functions import Arguments
from django_qless.options import Options
from django_qless.puts import arguments, outlet, uniqueness
from django_qless.puts.enqueue import Plan
from django_qless.sensitive import must_name_parameters, sensitive_of
from django_qless.tasks import catalogue, envelope, frameworks, results
from django_qless.tasks.settings import BackendOptions
from django_qless.tasks.shipment import TaskParcel
from django_qless.tasks.task import QlessTask, options_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django.tasks.backends.base import BaseTaskBackend

    from django_qless.registry import JobType
else:
    BaseTaskBackend = frameworks.primary().backends.BaseTaskBackend

# Plans kept by a backend: one for each Task and each using() of it.
MOST_PLANS = 500


class QlessBackend(BaseTaskBackend):
    """Puts Tasks into queues, and tells what has become of them.

    Its OPTIONS: `alias` of QLESS, `enqueue_on_commit` (False, True, or a database),
    `TASK_MODULES`, and options of `@job` for all Tasks: see `settings.py`.
    """

    task_class = QlessTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.qless = BackendOptions(self.options)
        self._plans: dict[Any, tuple[Plan, Any]] = {}
        # By name, the functions of Tasks that workers know with these OPTIONS.
        self._settled: dict[str, Any] = {}

    def validate_task(self, task: Any) -> None:
        """Raise InvalidTask for what no worker could run; let workers run the others."""
        try:
            super().validate_task(task)
        except frameworks.primary().exception("InvalidTask") as refused:  # type: ignore[union-attr]
            raise frameworks.error("InvalidTask", str(refused)) from None
        name = task.module_path
        if self._settled.get(name) is task.func:
            return
        if not catalogue.is_declared(task):
            if self._elsewhere(task) is not None:
                return  # refused when it is enqueued; no worker is to know it
            self._declare(task)
        else:
            known = catalogue.declared(name)
            if known.backend == self.alias:
                self._declare(known)
        self._settled[name] = task.func

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Put the Task with these arguments; return its TaskResult.

        Raises InvalidTask, and TypeError for an argument that JSON cannot carry.
        """
        parcel, waits = self._packed(task, args, kwargs)
        outlet.ship(parcel, waits)
        return parcel.result

    async def aenqueue(
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Put the Task from asynchronous code; return its TaskResult."""
        parcel, waits = self._packed(task, args, kwargs)
        await outlet.aship(parcel, waits)
        return parcel.result

    def get_result(self, result_id: str) -> Any:
        """Return the TaskResult of this id as it is now. Raises TaskResultDoesNotExist."""
        client = connections[self.qless.alias]
        try:
            job = client.get(result_id)
        except BadArgument:
            job = None
        record = results.Record.of(self, result_id, job)
        value = client.result(result_id) if record.has_value else None
        return record.result(value)

    async def aget_result(self, result_id: str) -> Any:
        """Return the TaskResult from asynchronous code."""
        client = connections.aclient(self.qless.alias)
        try:
            job = await client.get(result_id)
        except BadArgument:
            job = None
        record = results.Record.of(self, result_id, job)
        value = await client.result(result_id) if record.has_value else None
        return record.result(value)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Judge what TASKS says of this backend. Connects to no server.

        django_qless.E101   the app is not installed
        django_qless.E102   OPTIONS
        django_qless.E103   an alias that QLESS does not have
        """
        return [
            Error(
                f"TASKS[{self.alias!r}]: {text}", hint=hint, id=f"django_qless.{number}"
            )
            for number, text, hint in self._problems()
        ]

    def options_of(self, task: Any) -> Options:
        """Return the options of the jobs that this Task becomes. Raises InvalidTask."""
        given = options_in(task)
        if task.run_after is not None:
            given["run_at"] = envelope.aware(task.run_after)
        name = task.module_path
        try:
            options = self.qless.defaults.changed(
                name, queue=task.queue_name, priority=int(task.priority), **given
            )
            must_name_parameters(name, options.sensitive, task.func)
            return options
        except InvalidOption as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None

    def _declare(self, task: Any) -> None:
        options = replace(self.options_of(task), run_at=None)
        try:
            catalogue.declare(task, options)
        except InvalidJob as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None

    def _packed(
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[TaskParcel, Sequence[str]]:
        """Check everything; return what is to be put, and the commits it waits for."""
        for problem in self.qless.problems:
            text = f"TASKS[{self.alias!r}]: {problem.text} {problem.hint}"
            raise frameworks.error("InvalidTaskBackend", text)
        self.validate_task(task)
        plan, unique = self._plan(task)
        base = frameworks.of(task).base  # type: ignore[union-attr]
        result = base.TaskResult(
            task=task,
            id="",
            status=base.TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        args, kwargs = result.args, result.kwargs
        sensitive = sensitive_of(plan.job_type)
        data = envelope.encode(
            plan.job_type.name,
            args,
            kwargs,
            backend=self._named_in(plan.job_type),
            run_after=task.run_after,
            mark=sensitive.mark(args, kwargs) if sensitive else "",
        )
        key = "" if unique is None else _key(task, unique, args, kwargs)
        [item], waits = plan.items([Arguments(plan.job_type, data, None, key)])
        envelope.change(result, id=item.handle.jid)
        return TaskParcel(item, result, type(self)), waits

    def _named_in(self, job_type: JobType) -> str | None:
        """Return this backend's alias if the Task is declared for another one."""
        declared = catalogue.declared(job_type.name).backend
        return None if declared == self.alias else self.alias

    def _plan(self, task: Any) -> tuple[Plan, Any]:
        """Return how this Task is put, and its option `unique`."""
        try:
            found = self._plans.get(task)
        except TypeError:  # a list among its options
            return self._new_plan(task)
        if found is None:
            found = self._new_plan(task)
            if task.run_after is None:
                if len(self._plans) >= MOST_PLANS:
                    self._plans.clear()
                self._plans[task] = found
        return found

    def _new_plan(self, task: Any) -> tuple[Plan, Any]:
        self._must_be_found(task)
        options = self.options_of(task)
        try:
            return Plan(catalogue.type_of(task), options), options.unique
        except InvalidOption as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None

    def _must_be_found(self, task: Any) -> None:
        """Refuse a Task that workers would not run, as it is declared for others."""
        found = self._elsewhere(task)
        if found is not None:
            module = task.func.__module__
            raise frameworks.error(
                "InvalidTask",
                f"{task.module_path} is declared for TASKS[{found.backend!r}], so workers "
                f'do not run it: declare it with @task(backend="{self.alias}"), or name '
                f"{module} in the TASK_MODULES of TASKS[{self.alias!r}].",
            )

    def _elsewhere(self, task: Any) -> Any:
        """Return the declaration of a Task for a backend that is none of ours, or None."""
        found = catalogue.written(task)
        if found is None or catalogue.is_trusted(task.func.__module__, self):
            return None
        return None if isinstance(found.get_backend(), QlessBackend) else found

    def _problems(self) -> Iterator[tuple[str, str, str]]:
        if not apps.is_installed("django_qless"):
            yield (
                "E101",
                "django_qless is not in INSTALLED_APPS, so there is no worker.",
                'Add "django_qless" to INSTALLED_APPS.',
            )
        for problem in self.qless.problems:
            yield "E102", problem.text, problem.hint
        try:
            names = conf.names()
        except ImproperlyConfigured:
            names = []  # said by the checks of QLESS
        if names and self.qless.alias not in names:
            yield (
                "E103",
                f"QLESS has no alias {self.qless.alias!r}.",
                f"There are: {', '.join(map(repr, names))}.",
            )


def _key(task: Any, unique: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return what the option `unique` makes of the arguments, "" for nothing."""
    name = task.module_path
    if isinstance(unique, str):
        return uniqueness.of_text(name, unique)
    if unique is True:
        arity = Arity.of(task.func, skip_first=task.takes_context)
        spread = arity.spread(tuple(args), dict(kwargs))
        return uniqueness.of_data(name, arguments.encode(name, *spread))
    return uniqueness.of_call(name, unique, args, kwargs)
