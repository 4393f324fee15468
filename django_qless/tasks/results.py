"""TaskResults, made of a job's record and history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings

from django_qless.conf.sealing import open_text
from django_qless.core.put import time_of
from django_qless.core.states import ENDED
from django_qless.exceptions import Fail
from django_qless.job_types.registry import Binding, JobType
from django_qless.serialization.json_values import revive
from django_qless.tasks import frameworks, known_tasks, task_data
from django_qless.tasks.task import QlessTask

if TYPE_CHECKING:
    from django_qless.core import AsyncJob, Canceled, Job
    from django_qless.tasks.backend import QlessBackend

    Snapshot = Job | AsyncJob

#: The history's word for an attempt that raised: exception, traceback, began, ended.
RAISED = "raised"

# Words that end an attempt. A job that is returned to the queue, by a worker that stops
# or does not know the Task yet, has had none.
_ENDS = frozenset(
    {RAISED, "done", "failed", "retried", "crashed", "timed-out", "canceled"}
)

# The core's words for changes of a job's state; jobs log others in between.
_KNOWN = _ENDS - {"canceled"} | {"put", "popped", "returned", "lost"}

# The group of a job that its worker did not know: the core's word.
UNKNOWN_JOB = "unknown-job"

# The error of a Task without an exception, and that of a canceled Task.
NO_EXCEPTION = "django_qless.exceptions.JobFailed"
CANCELED = "django_qless.exceptions.JobGone"

STATUSES = {
    "running": "RUNNING",
    "failed": "FAILED",
    "complete": "SUCCESSFUL",
    "canceled": "FAILED",
}


@dataclass
class Timeline:
    """The attempts of a job, by its history."""

    workers: list[str] = field(default_factory=list)
    """The worker of each attempt, in order."""
    begun: list[float] = field(default_factory=list)
    """The start of each; to the second, if it has not ended yet."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    """Of failed attempts: the exception's path, and the traceback."""
    ended: float | None = None
    """The end of the last one."""

    @classmethod
    def of(cls, job: Snapshot) -> Timeline:
        """Return the timeline of a job."""
        timeline, popped = cls(), None
        history = [entry for entry in job.history if entry["what"] in _KNOWN]
        if job.canceled:
            history.append(job.history[-1])  # A job may have logged the word, too.
        for at, entry in enumerate(history):
            what, when = entry["what"], float(entry["when"])
            if what == "popped":
                following = history[at + 1]["what"] if at + 1 < len(history) else ""
                if following in _ENDS or (not following and job.state == "running"):
                    popped = entry
                    timeline.workers.append(entry.get("worker", ""))
                    timeline.begun.append(when)
            elif what in _ENDS:
                timeline._end(entry, popped, history[at - 1] if at else entry, job)
        return timeline

    def _end(
        self,
        entry: dict[str, Any],
        popped: dict[str, Any] | None,
        before: dict[str, Any],
        job: Snapshot,
    ) -> None:
        """Add the end of an attempt."""
        what, self.ended = entry["what"], float(entry["when"])
        text = None
        if what == RAISED:
            self.errors.append((entry["exception"], entry["traceback"]))
            self.ended = float(entry["ended"])
            if self.begun:
                self.begun[-1] = float(entry["began"])
        elif what == "canceled" and job.canceled:
            self.errors.append((CANCELED, _cancellation(job.canceled)))
        elif what == "crashed":
            text = f"The process of worker {entry.get('worker', '')} died.\n"
        elif what in ("failed", "retried") and before["what"] == RAISED:
            # The core's entry for the same attempt, right behind that of the Task.
            self.ended = float(before["ended"])
        elif what == "retried":
            # By a hard timeout, say: the process could not log the exception.
            text = entry.get("message", "")
        elif what == "failed":
            if before is popped and entry.get("group") == UNKNOWN_JOB:
                self.workers.pop()
                self.begun.pop()
            text = job.failure.message if job.failure else entry.get("group", "")
        if text is not None:
            self.errors.append((NO_EXCEPTION, text))


@dataclass(frozen=True)
class TaskRecord:
    """The record of a job that is a Task."""

    backend: QlessBackend
    job: Snapshot
    job_type: JobType
    data: task_data.TaskData

    @classmethod
    def of(cls, backend: QlessBackend, jid: str, job: Snapshot | None) -> TaskRecord:
        """Return the record of the Task in a job. Raises TaskResultDoesNotExist."""
        if job is None:
            raise _missing(
                f"There is no job {jid!r} in alias {backend.home!r}: it was never enqueued "
                "there, or cancelled, or finished so long ago that it has been dropped."
            )
        if job.canceled and job.canceled.left_out:
            raise _missing(
                f"The job {jid!r} was canceled. Its arguments, {job.canceled.left_out} "
                "bytes, are not kept."
            )
        job_type = known_tasks.find(job.klass, backend.home)
        if job_type is None or job_type.binding is not Binding.TASK:
            raise _missing(f"The job {jid!r} is {job.klass}, which is no Task here.")
        try:
            return cls(backend, job, job_type, task_data.decode(open_text(job.data)))
        except Fail as error:
            raise _missing(f"The job {jid!r} is no Task: {error}") from None

    @property
    def has_value(self) -> bool:
        """True if the Task returned a value other than None that was to be kept."""
        ran = self.data.ran
        return self.job.state == "complete" and ran is not None and ran.has_value

    def result(self, value: Any) -> Any:
        """Return the TaskResult; `value` is the stored return value, or None.

        Raises TaskResultDoesNotExist if that is not kept any more.
        """
        job, ran = self.job, self.data.ran
        if self.has_value and value is None:
            raise _missing(
                f"The Task {job.jid!r} has succeeded, but its return value is gone: "
                "its result_ttl has passed."
            )
        puts = [entry["q"] for entry in job.history if entry["what"] == "put"]
        timeline = Timeline.of(job)
        begun = timeline.begun
        if job.state == "complete" and ran is not None:
            begun[-1:] = [ran.began]
            timeline.ended = ran.began + ran.seconds
        finished = job.state in ENDED and timeline.ended is not None
        enqueued = time_of(job.jid)
        if enqueued is None:
            enqueued = float(job.history[0]["when"]) if job.history else 0.0
        _, *begun, ended = _in_order([enqueued, *begun, timeline.ended or 0.0])
        result = make_result(
            enqueued_task(
                self.job_type,
                self.data,
                queue=job.queue or (puts[-1] if puts else ""),
                priority=int(job.priority),
                context=job.context,
            ),
            job.jid,
            STATUSES.get(job.state, "READY"),
            self.data.args,
            self.data.kwargs,
            self.backend.alias,
            enqueued=enqueued,
            begun=begun,
            finished=ended if finished else None,
            errors=timeline.errors,
            workers=timeline.workers,
        )
        update(result, _return_value=revive(value))
        return result


def make_result(
    task: Any,
    jid: str,
    status: str,
    args: Any,
    kwargs: Any,
    backend: str,
    *,
    enqueued: float | None = None,
    begun: list[float] | None = None,
    finished: float | None = None,
    errors: Iterable[tuple[str, str]] = (),
    workers: Iterable[str] = (),
) -> Any:
    """Return a TaskResult; times are in seconds of the epoch."""
    base = frameworks.required().base
    return base.TaskResult(
        task=task,
        id=jid,
        status=base.TaskResultStatus[status],
        enqueued_at=to_datetime(enqueued),
        started_at=to_datetime(begun[0] if begun else None),
        last_attempted_at=to_datetime(begun[-1] if begun else None),
        finished_at=to_datetime(finished),
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[
            base.TaskError(exception_class_path=path, traceback=text)
            for path, text in errors
        ],
        worker_ids=list(workers),
    )


def update(result: Any, **attributes: Any) -> None:
    """Set attributes of a TaskResult, which is a frozen dataclass."""
    for name, value in attributes.items():
        object.__setattr__(result, name, value)


def to_datetime(seconds: float | None) -> datetime | None:
    """Return a time as Django has it: aware, if USE_TZ is True."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC if settings.USE_TZ else None)


def enqueued_task(
    job_type: JobType,
    data: task_data.TaskData,
    *,
    queue: str,
    priority: int,
    context: dict[str, Any],
) -> Any:
    """Return the Task of a job with the changes that its `using()` made.

    As it was declared, if the backend would not accept these any more: the settings have
    changed, or an operator has moved the job.
    """
    declared = known_tasks.declared(job_type.name)
    changes: dict[str, Any] = {
        "queue_name": queue or declared.queue_name,
        "priority": priority,
        "run_after": data.run_after,
    }
    if data.backend is not None:
        changes["backend"] = data.backend
    if isinstance(declared, QlessTask):
        changes |= context.get("options", {})
    if all(getattr(declared, name) == value for name, value in changes.items()):
        return declared
    exception = frameworks.required().exception
    refusals = exception("InvalidTask"), exception("InvalidTaskBackend")
    try:
        return replace(declared, **changes)
    except (TypeError, ValueError, *refusals):
        return declared


def _in_order(times: list[float]) -> list[float]:
    """Return the times in order: those to the second may be before their predecessors."""
    ordered: list[float] = []
    for time in times:
        before = ordered[-1] if ordered else time
        ordered.append(before if 0 < before - time < 1 else time)
    return ordered


def _cancellation(canceled: Canceled) -> str:
    reason = f", because of the {canceled.why} {canceled.by}" if canceled.by else ""
    return f"The Task was canceled when it was {canceled.was}{reason}.\n"


def _missing(text: str) -> Exception:
    return frameworks.error("TaskResultDoesNotExist", text)
