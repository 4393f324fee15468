"""Tasks in a worker: their context, their signals, and what is kept of their attempts."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import QlessError
from django_qless.registry import registry
from django_qless.tasks import catalogue, envelope, frameworks, results
from django_qless.worker import failures

if TYPE_CHECKING:
    from django_qless.current import CurrentJob
    from django_qless.registry import JobType

logger = logging.getLogger("django_qless.worker")

# Of each attempt's traceback the history keeps the end; the job's failure has all of it.
MOST_CHARACTERS = 16 * 1024


class TaskRun:
    """An attempt at a Task, as its context and the receivers of signals see it."""

    def __init__(self, current: CurrentJob, job_type: JobType) -> None:
        """It begins now."""
        self.current = current
        self.job_type = job_type
        self.began = time.time()
        self.envelope = envelope.decode(current.reserved.data)
        self.task = results.as_put(
            job_type,
            self.envelope,
            queue=current.queue,
            priority=int(current.priority),
            context=current.context,
        )
        framework = frameworks.of(self.task)
        assert framework is not None  # as_put returns Tasks only
        self.framework = framework
        self.result: Any = self._result()

    def arguments(self) -> list[Any]:
        """Return the positional arguments of the Task's function."""
        if not self.task.takes_context:
            return self.envelope.args
        context = self.framework.base.TaskContext(task_result=self.result)
        return [context, *self.envelope.args]

    def finish(self, value: Any) -> Any:
        """Take what the function returned; return it as JSON has it.

        Raises TypeError, or ValueError, if JSON has no word for it.
        """
        normal = self.framework.normalize_json(value)
        current = self.current
        ttl = self.job_type.options_for(current.reserved.context).result_ttl
        ran = envelope.Ran(
            self.began,
            max(0.0, time.time() - self.began),
            normal is not None and ttl > 0,
        )
        current.data_left = envelope.with_run(current.reserved.data, ran)
        envelope.change(
            self.result,
            _return_value=normal,
            finished_at=envelope.moment(ran.began + ran.seconds),
        )
        return normal

    def started(self) -> None:
        """Send `task_started`."""
        self.framework.signals.task_started.send_robust(
            self.sender(), task_result=self.result
        )

    def succeeded(self) -> None:
        """Send `task_finished` after a success."""
        self._set("SUCCESSFUL")
        self._send_finished()

    def failed(self, error: BaseException, *, final: bool) -> None:
        """Note an attempt that raised; send `task_finished` if there is no other."""
        kind, ended = type(error), time.time()
        path = f"{kind.__module__}.{kind.__qualname__}"
        text = failures.message_of(error)
        self._log(path, text[-MOST_CHARACTERS:], ended)
        base = self.framework.base
        self.result.errors.append(
            base.TaskError(exception_class_path=path, traceback=text)
        )
        if not final:
            self._set("READY")
            return
        self._set("FAILED", finished_at=envelope.moment(ended))
        trace = error.__traceback__
        try:
            # Receivers find it in sys.exc_info(), the log of django.tasks first of all.
            raise error.with_traceback(failures.own_code(trace))
        except BaseException:  # noqa: BLE001  it is a Task's
            self._send_finished()
        finally:
            error.__traceback__ = trace

    def _set(self, status: str, **more: Any) -> None:
        statuses = self.framework.base.TaskResultStatus
        envelope.change(self.result, status=statuses[status], **more)

    def _send_finished(self) -> None:
        self.framework.signals.task_finished.send_robust(
            self.sender(), task_result=self.result
        )

    def sender(self) -> type:
        """Return who sends its signals: the class of its backend."""
        return type(self.task.get_backend())

    def _log(self, path: str, text: str, ended: float) -> None:
        """Keep what this attempt raised: the next one's failure takes its place."""
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

    def _result(self) -> Any:
        """Return the result of the Task that runs, its earlier attempts included."""
        current, base = self.current, self.framework.base
        timeline = (
            earlier_attempts(current) if must_ask(current) else results.Timeline()
        )
        put = envelope.put_at(current.jid)
        begun = [*timeline.begun, self.began]
        return base.TaskResult(
            task=self.task,
            id=current.jid,
            status=base.TaskResultStatus.RUNNING,
            enqueued_at=envelope.moment(put if put is not None else begun[0]),
            started_at=envelope.moment(begun[0]),
            last_attempted_at=envelope.moment(self.began),
            finished_at=None,
            args=self.envelope.args,
            kwargs=self.envelope.kwargs,
            backend=self.task.backend,
            errors=[
                base.TaskError(exception_class_path=path, traceback=text)
                for path, text in timeline.errors
            ],
            worker_ids=[*timeline.workers, current.worker],
        )


def run_of(current: CurrentJob) -> TaskRun | None:
    """Return the attempt that a running job is, or None if it is no Task."""
    if current.task_run is None and catalogue.is_task(current.name):
        job_type = registry.get(current.name)
        current.task_run = TaskRun(current, job_type)  # type: ignore[arg-type]
    run: TaskRun | None = current.task_run
    return run


def earlier_attempts(current: CurrentJob) -> results.Timeline:
    """Ask the server what has become of the job so far."""
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


def must_ask(current: CurrentJob) -> bool:
    """Return whether the server is to be asked for earlier attempts of a Task.

    Only if somebody may look: it takes a call. That this is not the first attempt does
    not show in what the worker was handed, for a crash leaves the retries alone.
    """
    task = _task_of(current)
    return bool(task.takes_context) or _has_listeners(task)


def is_quick(what: str, current: CurrentJob) -> bool:
    """Return whether telling this takes no time worth a thread: one line of a log."""
    if what not in ("started", "completed") or not catalogue.is_task(current.name):
        return False
    if current.task_run is None and must_ask(current):
        return False
    return not _has_listeners(_task_of(current))


def tell(what: str, current: CurrentJob, exception: object = None) -> None:
    """Tell what has become of a run, if it is one of a Task."""
    run = run_of(current)
    if run is None:
        return
    if what == "started":
        run.started()
    elif what == "completed":
        run.succeeded()
    elif isinstance(exception, BaseException):
        run.failed(exception, final=what == "failed")
    elif what == "failed":
        _tell_of_a_death(run)


def _tell_of_a_death(run: TaskRun) -> None:
    """Send `task_finished` for an attempt whose process was killed."""
    result = run.task.get_backend().get_result(run.current.jid)
    signal = run.framework.signals.task_finished
    signal.send_robust(run.sender(), task_result=result)


def _task_of(current: CurrentJob) -> Any:
    """Return the Task that a job is, as it was declared."""
    job_type = registry.get(current.name)
    assert job_type is not None  # it runs
    return catalogue.declared(job_type.name)


def _has_listeners(task: Any) -> bool:
    """Return whether anybody but the framework's own log listens to its signals."""
    framework = frameworks.of(task)
    assert framework is not None
    signals = framework.signals
    # What Django's log is, by the key that a signal has for a receiver without sender.
    logs = {id(signals.log_task_started), id(signals.log_task_finished)}
    known = [*signals.task_started.receivers, *signals.task_finished.receivers]
    return any(key[0] not in logs for key, *_ in known)
