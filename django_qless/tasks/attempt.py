"""Attempts at a Task in a worker: context, signals, and recorded errors."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import QlessError
from django_qless.core.put import time_of
from django_qless.job_types.registry import registry
from django_qless.tasks import frameworks, known_tasks, results, task_data
from django_qless.worker import failure_report
from django_qless.worker.exception_groups import decisive

if TYPE_CHECKING:
    from django_qless.job_types.current import CurrentJob
    from django_qless.job_types.registry import JobType

logger = logging.getLogger("django_qless.worker")

# The history keeps the end of each attempt's traceback; the job's failure has all of it.
MAX_CHARACTERS = 16 * 1024


class TaskAttempt:
    """An attempt at a Task, for its context and the receivers of signals."""

    def __init__(self, current: CurrentJob, job_type: JobType) -> None:
        """Begin it now."""
        self.current = current
        self.job_type = job_type
        self.began = time.time()
        self.data = task_data.decode(current.reserved.data)
        self.task = results.enqueued_task(
            job_type,
            self.data,
            queue=current.queue,
            priority=int(current.priority),
            context=current.context,
        )
        self.framework = frameworks.required()
        ask = needs_earlier_attempts(current)
        timeline = _earlier_attempts(current) if ask else results.Timeline()
        begun, drawn = [*timeline.begun, self.began], time_of(current.jid)
        self.result: Any = results.make_result(
            self.task,
            current.jid,
            "RUNNING",
            self.data.args,
            self.data.kwargs,
            self.task.backend,
            enqueued=begun[0] if drawn is None else drawn,
            begun=begun,
            errors=timeline.errors,
            workers=[*timeline.workers, current.worker],
        )

    def arguments(self) -> list[Any]:
        """Return the positional arguments of the Task's function."""
        if not self.task.takes_context:
            return self.data.args
        context = self.framework.base.TaskContext(task_result=self.result)
        return [context, *self.data.args]

    def finish(self, value: Any) -> Any:
        """Take the function's return value; return it as JSON has it.

        Raises TypeError, or ValueError, if JSON cannot express it.
        """
        normal = self.framework.normalize_json(value)
        current = self.current
        ttl = self.job_type.options_for(current.reserved.context).result_ttl
        has_value = normal is not None and ttl > 0
        seconds = max(0.0, time.time() - self.began)
        ran = task_data.Ran(self.began, seconds, has_value)
        current.final_data = task_data.with_run(current.reserved.data, ran)
        finished = results.to_datetime(ran.began + ran.seconds)
        results.update(self.result, _return_value=normal, finished_at=finished)
        return normal

    def send(self, signal: str, result: Any = None) -> None:
        """Send `task_started` or `task_finished`."""
        getattr(self.framework.signals, signal).send_robust(
            type(self.task.get_backend()), task_result=result or self.result
        )

    def set_status(self, status: str, **more: Any) -> None:
        """Set the result's status, and other attributes of it."""
        statuses = self.framework.base.TaskResultStatus
        results.update(self.result, status=statuses[status], **more)

    def failed(self, error: BaseException, *, final: bool) -> None:
        """Keep the error of the attempt; send `task_finished` if it is the last one."""
        kind, ended = type(decisive(error)), time.time()
        path = f"{kind.__module__}.{kind.__qualname__}"
        text = failure_report.message_of(error)
        self._log(path, text[-MAX_CHARACTERS:], ended)
        self.result.errors.append(
            self.framework.base.TaskError(exception_class_path=path, traceback=text)
        )
        if not final:
            self.set_status("READY")
            return
        self.set_status("FAILED", finished_at=results.to_datetime(ended))
        trace = error.__traceback__
        try:
            # Receivers find it in sys.exc_info(), the log of django.tasks first of all.
            raise error.with_traceback(failure_report.job_traceback(trace))
        except BaseException:  # noqa: BLE001  it is a Task's
            self.send("task_finished")
        finally:
            error.__traceback__ = trace

    def _log(self, path: str, text: str, ended: float) -> None:
        """Keep the error in the history: a later failure replaces the job's."""
        details = {
            "exception": path,
            "traceback": text,
            "began": f"{self.began:.6f}",
            "ended": f"{ended:.6f}",
        }
        client, jid = self.current.client, self.current.jid
        try:
            client.log(jid, results.RAISED, json.dumps(details))
        except QlessError:
            logger.exception("an error of the Task %s is not kept", jid)


def attempt_of(current: CurrentJob) -> TaskAttempt | None:
    """Return a running job's attempt at a Task, None without a Task."""
    if current.task_run is None and known_tasks.is_task(current.name):
        job_type = registry.get(current.name)
        current.task_run = TaskAttempt(current, job_type)  # type: ignore[arg-type]
    attempt: TaskAttempt | None = current.task_run
    return attempt


def announce(what: str, current: CurrentJob, exception: object = None) -> None:
    """Send the signals of a Task for a change of its job."""
    attempt = attempt_of(current)
    if attempt is None:
        return
    if what == "started":
        attempt.send("task_started")
    elif what == "completed":
        attempt.set_status("SUCCESSFUL")
        attempt.send("task_finished")
    elif isinstance(exception, BaseException):
        attempt.failed(exception, final=what == "failed")
    elif what == "failed":
        # The process was killed, and another one announces it.
        backend = attempt.task.get_backend()
        attempt.send("task_finished", backend.get_result(current.jid))


def is_quick(what: str, current: CurrentJob) -> bool:
    """Return whether `announce` takes no time worth a thread: one line of a log."""
    if what not in ("started", "completed") or not known_tasks.is_task(current.name):
        return False
    if current.task_run is None and needs_earlier_attempts(current):
        return False
    return not _has_listeners()


def needs_earlier_attempts(current: CurrentJob) -> bool:
    """Return whether the earlier attempts of a Task may be looked at.

    To load them takes a call. The reserved job does not show whether there are any, for a
    crash leaves the retries alone.
    """
    task = _declared_task(current)
    return bool(task.takes_context) or _has_listeners()


def _earlier_attempts(current: CurrentJob) -> results.Timeline:
    try:
        job = current.client.get(current.jid)
    except QlessError:
        logger.exception("earlier attempts of the Task %s are not known", current.jid)
        job = None
    if job is None:
        return results.Timeline()
    timeline = results.Timeline.of(job)
    if job.state == "running" and timeline.workers:
        # This attempt itself.
        timeline.workers.pop()
        timeline.begun.pop()
    return timeline


def _declared_task(current: CurrentJob) -> Any:
    job_type = registry.get(current.name)
    assert job_type is not None  # it runs
    return known_tasks.declared(job_type.name)


def _has_listeners() -> bool:
    """Return whether the signals of Tasks have receivers other than the framework's log."""
    signals = frameworks.required().signals
    # Django's log, by the key that a signal has for a receiver without sender.
    logs = {id(signals.log_task_started), id(signals.log_task_finished)}
    receivers = [*signals.task_started.receivers, *signals.task_finished.receivers]
    return any(key[0] not in logs for key, *_ in receivers)
