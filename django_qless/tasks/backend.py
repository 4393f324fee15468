"""QlessBackend: runs Django's Tasks as jobs of django_qless."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from django_qless import conf
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.conf.sealing import open_value
from django_qless.core.exceptions import BadArgument
from django_qless.core.put import time_of
from django_qless.core.request import Steps, adrive, drive
from django_qless.enqueue import dispatch, unique_keys
from django_qless.enqueue.limit_keys import limit_keys
from django_qless.enqueue.plan import EnqueuePlan
from django_qless.enqueue.request import CallArguments, EnqueueBatch, EnqueueRequest
from django_qless.exceptions import InvalidJob, InvalidOption
from django_qless.job_types.limits import validate_keys
from django_qless.job_types.options import Options
from django_qless.job_types.redaction import sensitive_values, validate_sensitive
from django_qless.job_types.signature import CallSignature
from django_qless.serialization import envelope
from django_qless.tasks import frameworks, known_tasks, results, task_data
from django_qless.tasks.task import BackendOptions, QlessTask, options_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from django.tasks.backends.base import BaseTaskBackend

else:
    BaseTaskBackend = frameworks.required().backends.BaseTaskBackend

# Plans kept by a backend: one for each Task and each using() of it.
MAX_PLANS = 500


class TaskBatch(EnqueueBatch):
    """A Task to enqueue; updates its TaskResult, and sends `task_enqueued`."""

    __slots__ = ("backend_class", "result")

    def __init__(
        self, request: EnqueueRequest, result: Any, backend_class: type
    ) -> None:
        super().__init__((request,))
        self.result = result
        self.backend_class = backend_class

    def send(self) -> None:
        """Enqueue the Task and send `task_enqueued`."""
        super().send()
        self._announce()

    async def asend(self) -> None:
        """Enqueue the Task from asynchronous code and send `task_enqueued`."""
        await super().asend()
        self._update()
        if self.requests[0].is_news:
            await self._signal.asend(self.backend_class, task_result=self.result)

    def send_on_commit(self) -> None:
        """Enqueue the Task on commit; send `task_enqueued` unless it is a duplicate."""
        super().send_on_commit()
        self._update()

    def mark_enqueued(
        self, duplicates: Mapping[str, str] | None = None, skipped: Collection[str] = ()
    ) -> None:
        """Note that the Task is enqueued, and send `task_enqueued`."""
        super().mark_enqueued(duplicates, skipped)
        self._announce()

    def _announce(self) -> None:
        self._update()
        if self.requests[0].is_news:
            self._signal.send(self.backend_class, task_result=self.result)

    def _update(self) -> None:
        """Set the id and time of the result; for a duplicate, the earlier job's."""
        jid = self.requests[0].handle.jid
        enqueued = results.to_datetime(time_of(jid))
        results.update(self.result, id=jid, enqueued_at=enqueued)

    @property
    def _signal(self) -> Any:
        return frameworks.required().signals.task_enqueued


class QlessBackend(BaseTaskBackend):
    """Enqueues Tasks, and returns their results.

    Its OPTIONS: `alias` of QLESS, `enqueue_on_commit` (False, True, or a database),
    `TASK_MODULES`, and options of `@job` for all Tasks: see `task.py`.
    """

    task_class = QlessTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.qless = BackendOptions(self.options)
        #: The alias of QLESS in which it looks for results.
        self.home = self.qless.alias or conf.DEFAULT_ALIAS
        self._plans: dict[Any, tuple[EnqueuePlan, Any]] = {}
        # By name, the functions of valid Tasks, known to workers with these OPTIONS.
        self._validated: dict[str, Any] = {}

    def validate_task(self, task: Any) -> None:
        """Raise InvalidTask if no worker could run the Task; else let workers run it."""
        super().validate_task(task)
        name = task.module_path
        if self._validated.get(name) is task.func:
            return
        if not known_tasks.is_declared(task):
            if self._foreign_declaration(task) is not None:
                return  # refused when it is enqueued, and unknown to workers
            self._declare(task)
        else:
            known = known_tasks.declared(name)
            if known.backend == self.alias:
                self._declare(known)
        self._validated[name] = task.func

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue the Task with these arguments; return its TaskResult.

        Raises InvalidTask, and TypeError for an argument that JSON cannot carry.
        """
        batch, transaction = self._batch(task, args, kwargs)
        dispatch.send(batch, transaction)
        return batch.result

    async def aenqueue(
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Enqueue the Task from asynchronous code; return its TaskResult."""
        options = self.options_of(task)
        if dispatch.uses_outbox(options.on_commit, routing.alias_for(options)):
            # In the thread that may have the transaction.
            return await sync_to_async(self.enqueue)(task, args, kwargs)
        batch, transaction = self._batch(task, args, kwargs)
        await dispatch.asend(batch, transaction)
        return batch.result

    def for_queue(self, queue: str) -> QlessBackend:
        """Return what reads the results of a queue's Tasks: a copy if it is routed away."""
        alias = routing.alias_of(queue, self.qless.alias)
        if alias == self.home:
            return self
        other = copy(self)
        other.home = alias
        return other

    def get_result(self, result_id: str) -> Any:
        """Return the TaskResult of this id as it is now. Raises TaskResultDoesNotExist.

        It looks in one alias: that of its OPTIONS, else the default one; if a Task calls
        it, in that of the Task's queue.
        """
        return drive(self._result(connections[self.home], result_id))

    async def aget_result(self, result_id: str) -> Any:
        """Return the TaskResult from asynchronous code."""
        return await adrive(self._result(connections.aclient(self.home), result_id))

    def _result(self, client: Any, result_id: str) -> Steps[Any]:
        try:
            job = yield client.get(result_id)
        except BadArgument:
            job = None
        record = results.TaskRecord.of(self, result_id, job)
        value = (yield client.result(result_id)) if record.has_value else None
        return record.result(open_value(value))

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check the entry of this backend in TASKS. Connects to no server.

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
            given["run_at"] = task.run_after
        name = task.module_path
        try:
            options = self.qless.defaults.changed(
                name, queue=task.queue_name, priority=int(task.priority), **given
            )
            validate_sensitive(name, options.sensitive, task.func)
            validate_keys(name, options, task.func)
            return options
        except InvalidOption as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None

    def _declare(self, task: Any) -> None:
        options = replace(self.options_of(task), run_at=None)
        try:
            known_tasks.declare(task, options)
        except InvalidJob as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None

    def _batch(
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[TaskBatch, str | None]:
        """Validate a call; return it as a batch, and the database whose commit it awaits."""
        for problem in self.qless.problems:
            text = f"TASKS[{self.alias!r}]: {problem.text} {problem.hint}"
            raise frameworks.error("InvalidTaskBackend", text)
        self.validate_task(task)
        plan, unique = self._plan(task)
        result = results.make_result(task, "", "READY", args, kwargs, self.alias)
        args, kwargs = result.args, result.kwargs
        sensitive = sensitive_values(plan.job_type)
        declared = known_tasks.declared(plan.job_type.name).backend
        data = task_data.encode(
            plan.job_type.name,
            args,
            kwargs,
            backend=None if declared == self.alias else self.alias,
            run_after=task.run_after,
            mark=sensitive.mark(args, kwargs) if sensitive else "",
        )
        key = _key(task, unique, args, kwargs)
        keys = limit_keys(
            *(task.module_path, self.options_of(task), task.func, args, kwargs),
            skip_first=task.takes_context,
        )
        [request], transaction = plan.requests(
            [CallArguments(plan.job_type, data, None, key, limit_keys=keys)]
        )
        results.update(result, id=request.handle.jid)
        return TaskBatch(request, result, type(self)), transaction

    def _plan(self, task: Any) -> tuple[EnqueuePlan, Any]:
        """Return the plan for this Task, and its option `unique`."""
        try:
            found = self._plans.get(task)
        except TypeError:  # a list among its options
            return self._new_plan(task)
        if found is None:
            found = self._new_plan(task)
            if task.run_after is None:
                if len(self._plans) >= MAX_PLANS:
                    self._plans.clear()
                self._plans[task] = found
        return found

    def _new_plan(self, task: Any) -> tuple[EnqueuePlan, Any]:
        found = self._foreign_declaration(task)
        if found is not None:
            raise frameworks.error(
                "InvalidTask",
                f"{task.module_path} is declared for TASKS[{found.backend!r}], so workers "
                f'do not run it: declare it with @task(backend="{self.alias}"), or name '
                f"{task.func.__module__} in the TASK_MODULES of TASKS[{self.alias!r}].",
            )
        options = self.options_of(task)
        try:
            return EnqueuePlan(known_tasks.type_of(task), options), options.unique
        except InvalidOption as refused:
            raise frameworks.error("InvalidTask", str(refused)) from None

    def _foreign_declaration(self, task: Any) -> Any:
        """Return a Task's declaration if it is for a backend that is not ours."""
        found = known_tasks.in_module(task)
        if found is None or known_tasks.is_trusted(task.func.__module__, self):
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
            names = conf.alias_names()
        except ImproperlyConfigured:
            names = []  # reported by the checks of QLESS
        if names and self.home not in names:
            yield (
                "E103",
                f"QLESS has no alias {self.qless.alias!r}.",
                f"There are: {', '.join(map(repr, names))}.",
            )


def _key(task: Any, unique: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the unique key of a call, "" for none."""
    name = task.module_path

    def data() -> str:
        signature = CallSignature.of(task.func, skip_first=task.takes_context)
        return envelope.encode(name, *signature.normalized(tuple(args), dict(kwargs)))

    return unique_keys.key_of(name, unique, data, args, kwargs)
