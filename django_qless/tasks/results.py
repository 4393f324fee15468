"""From a job's record to a TaskResult."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django_qless.exceptions import Fail
from django_qless.registry import Binding, JobType
from django_qless.tasks import catalogue, envelope, frameworks
from django_qless.tasks.task import QlessTask
from django_qless.values import revive

if TYPE_CHECKING:
    from django_qless.core import AsyncJob, Canceled, Job
    from django_qless.tasks.backend import QlessBackend

    Snapshot = Job | AsyncJob

#: The history's word for an attempt that raised; its members are those of `Trouble`.
RAISED = "raised"

# Words for what ends an attempt. One that is handed back, by a worker that stops or does
# not know the Task yet, does not count.
_ENDS = frozenset(
    {RAISED, "done", "failed", "retried", "crashed", "timed-out", "canceled"}
)

# All words of the core for what becomes of a job; between them stands what jobs log.
_KNOWN = _ENDS - {"canceled"} | {"put", "popped", "returned", "lost"}

# An error of a Task whose worker had no exception to tell of.
NO_EXCEPTION = "django_qless.exceptions.JobFailed"

# The error of a Task that was canceled.
CANCELED = "django_qless.exceptions.JobGone"

STATUSES = {
    "running": "RUNNING",
    "failed": "FAILED",
    "complete": "SUCCESSFUL",
    "canceled": "FAILED",
}
OVER = ("complete", "failed", "canceled")


@dataclass
class Timeline:
    """What a job's history tells of its attempts."""

    workers: list[str] = field(default_factory=list)
    """Who has begun an attempt that counts, in order."""
    begun: list[float] = field(default_factory=list)
    """When; to the second, if the attempt has not ended yet."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    """Of attempts that failed: the exception's path, and the traceback."""
    ended: float | None = None
    """When the last attempt ended."""

    @classmethod
    def of(cls, job: Snapshot) -> Timeline:
        """Read the history of a job."""
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
        """Take note of what ended an attempt."""
        what, self.ended = entry["what"], float(entry["when"])
        if what == RAISED:
            self.errors.append((entry["exception"], entry["traceback"]))
            self.ended = float(entry["ended"])
            if self.begun:
                self.begun[-1] = float(entry["began"])
        elif what == "canceled" and job.canceled:
            self.errors.append((CANCELED, _canceled(job.canceled)))
        elif what == "crashed":
            worker = entry.get("worker", "")
            self.errors.append(
                (NO_EXCEPTION, f"The process of worker {worker} died.\n")
            )
        elif what in ("failed", "retried"):
            if before["what"] == RAISED:
                # The core's word, right behind that of the Task on the same attempt.
                self.ended = float(before["ended"])
                return
            if what == "retried":
                # A hard timeout, say: the process could tell no more.
                self.errors.append((NO_EXCEPTION, entry.get("message", "")))
                return
            if before is popped and entry.get("group") == "unknown-job":
                self.workers.pop()
                self.begun.pop()
            failure = job.failure
            text = failure.message if failure else entry.get("group", "")
            self.errors.append((NO_EXCEPTION, text))


@dataclass(frozen=True)
class Record:
    """A job that is a Task, with what belongs to it."""

    backend: QlessBackend
    job: Snapshot
    job_type: JobType
    envelope: envelope.Envelope

    @classmethod
    def of(cls, backend: QlessBackend, jid: str, job: Snapshot | None) -> Record:
        """Return the record of a job that was asked for. Raises TaskResultDoesNotExist."""
        if job is None:
            raise missing(
                f"There is no job {jid!r}: it was never put, or cancelled, or is over and "
                "has been forgotten."
            )
        if job.canceled and job.canceled.left_out:
            raise missing(
                f"The job {jid!r} was canceled. Its arguments, {job.canceled.left_out} "
                "bytes, are not kept."
            )
        job_type = catalogue.find(job.klass, backend.qless.alias)
        if job_type is None or job_type.binding is not Binding.TASK:
            raise missing(f"The job {jid!r} is {job.klass}, and that is no Task here.")
        try:
            return cls(backend, job, job_type, envelope.decode(job.data))
        except Fail as error:
            raise missing(f"The job {jid!r} is no Task: {error}") from None

    @property
    def has_value(self) -> bool:
        """Whether the Task has returned a value other than None that was to be kept."""
        ran = self.envelope.ran
        return self.job.state == "complete" and ran is not None and ran.has_value

    def result(self, value: Any) -> Any:
        """Return the TaskResult; `value` is what is kept of what it returned, or None.

        Raises TaskResultDoesNotExist if nothing is kept any more.
        """
        if self.has_value and value is None:
            raise missing(
                f"The Task {self.job.jid!r} has succeeded, but what it returned is gone: "
                "its result_ttl has passed, or more results than results-count or "
                "results-bytes allow came after it."
            )
        job, ran = self.job, self.envelope.ran
        task = self._task()
        base = frameworks.of(task).base  # type: ignore[union-attr]
        timeline = Timeline.of(job)
        enqueued = self._enqueued()
        begun = timeline.begun
        if job.state == "complete" and ran is not None:
            begun[-1:] = [ran.began]
            timeline.ended = ran.began + ran.seconds
        over = job.state in OVER and timeline.ended is not None
        _, *begun, ended = in_order([enqueued, *begun, timeline.ended or 0.0])
        result = base.TaskResult(
            task=task,
            id=job.jid,
            status=base.TaskResultStatus[STATUSES.get(job.state, "READY")],
            enqueued_at=envelope.moment(enqueued),
            started_at=envelope.moment(begun[0] if begun else None),
            last_attempted_at=envelope.moment(begun[-1] if begun else None),
            finished_at=envelope.moment(ended if over else None),
            args=self.envelope.args,
            kwargs=self.envelope.kwargs,
            backend=self.backend.alias,
            errors=[
                base.TaskError(exception_class_path=path, traceback=text)
                for path, text in timeline.errors
            ],
            worker_ids=timeline.workers,
        )
        envelope.change(result, _return_value=revive(value))
        return result

    def _enqueued(self) -> float:
        """Return when the Task was put, in seconds of the epoch."""
        drawn = envelope.put_at(self.job.jid)
        if drawn is not None:
            return drawn
        history = self.job.history
        return float(history[0]["when"]) if history else 0.0

    def _task(self) -> Any:
        """Return the Task as it was put."""
        job = self.job
        puts = [entry["q"] for entry in job.history if entry["what"] == "put"]
        return as_put(
            self.job_type,
            self.envelope,
            queue=job.queue or (puts[-1] if puts else ""),
            priority=int(job.priority),
            context=job.context,
        )


def as_put(
    job_type: JobType,
    carried: envelope.Envelope,
    *,
    queue: str,
    priority: int,
    context: dict[str, Any],
) -> Any:
    """Return the Task of a job with what was changed of it when it was put.

    As it was declared, if the backend would not have that any more: the settings have
    changed, or an operator has moved the job.
    """
    declared = catalogue.declared(job_type.name)
    changes: dict[str, Any] = {
        "queue_name": queue or declared.queue_name,
        "priority": priority,
        "run_after": carried.run_after,
    }
    if carried.backend is not None:
        changes["backend"] = carried.backend
    if isinstance(declared, QlessTask):
        changes |= context.get("options", {})
    if all(getattr(declared, name) == value for name, value in changes.items()):
        return declared
    try:
        return replace(declared, **changes)
    except _refusals():
        return declared


def in_order(times: list[float]) -> list[float]:
    """Return these times, none before its predecessor only because it is to the second."""
    ordered: list[float] = []
    for time in times:
        before = ordered[-1] if ordered else time
        ordered.append(before if 0 < before - time < 1 else time)
    return ordered


def _canceled(canceled: Canceled) -> str:
    """Return what is said of a Task that was canceled."""
    reason = f", because of the {canceled.why} {canceled.by}" if canceled.by else ""
    return f"The Task was canceled when it was {canceled.was}{reason}.\n"


def _refusals() -> tuple[type[Exception], ...]:
    """Return what the making of a Task may raise."""
    names = ("InvalidTask", "InvalidTaskBackend")
    known = (each.exception(name) for each in frameworks.in_use() for name in names)
    return (TypeError, ValueError, *known)


def missing(text: str) -> Exception:
    """Return the exception that there is no such result."""
    return frameworks.error("TaskResultDoesNotExist", text)
