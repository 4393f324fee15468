"""Exceptions that `django_qless` raises, and those by which a job ends its run.

    QlessError                        everything that went wrong around a job
    ├── InvalidJob                    @job on something that cannot be a job
    ├── InvalidOption                 a value that an option does not take
    │   └── UnknownOption             an option that does not exist
    ├── UnserialisableArgument        an argument that JSON cannot carry
    ├── NotPut                        what the handle stands for waits for a commit
    └── NoResult                      there is no result to return
        ├── ResultNotReady            the job has not ended yet
        ├── JobFailed                 the job has failed
        ├── ResultGone                it was kept for a while only
        └── JobGone                   nothing is known of the job

    Retry, Fail                       raised inside a job: how this run ends
    └── RowGone                       the row that the job needs is gone
    BatchFailure                      raised inside a job: some of its entities failed
    Interrupted                       raised inside a job from outside: stop now
    ├── JobTimeout                    it ran longer than its timeout
    ├── ShuttingDown                  its worker has to end
    └── JobLost                       it is no longer this worker's to run

What the client for the Lua core raises is in `django_qless.core.exceptions`.
Nothing here needs Django.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import QlessError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

__all__ = [
    "BatchFailure",
    "Fail",
    "Interrupted",
    "InvalidJob",
    "InvalidOption",
    "JobFailed",
    "JobGone",
    "JobLost",
    "JobTimeout",
    "NoResult",
    "NotPut",
    "QlessError",
    "ResultGone",
    "ResultNotReady",
    "Retry",
    "RowGone",
    "ShuttingDown",
    "UnknownOption",
    "UnserialisableArgument",
]


class InvalidJob(QlessError, TypeError):
    """A worker could not run such a job. Raised where the code declares it, at import."""


class InvalidOption(QlessError, ValueError):
    """Nothing was enqueued."""

    #: False if the call would not have enqueued anything: then it is not said.
    enqueues = True

    def __init__(
        self, detail: str = "", *, done: int = 0, enqueues: bool = True
    ) -> None:
        super().__init__(detail, done=done)
        if not enqueues:
            self.enqueues = False

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.enqueues else text.removesuffix(f" {self.explanation()}")


class UnknownOption(InvalidOption, TypeError):
    """Nothing was enqueued."""


class UnserialisableArgument(QlessError, TypeError):
    """Nothing was enqueued."""


class NotPut(QlessError):
    """It is enqueued when its transaction commits, and not at all if that is rolled
    back. Ask again after the commit, or enqueue it with on_commit=False."""


class NoResult(QlessError):
    """The job has no result to give."""


class ResultNotReady(NoResult, TimeoutError):
    """Is a worker serving its queue? result(timeout) waits that many seconds, and
    result(None) for ever."""


class JobFailed(NoResult):
    """It has no result; handle.retry() enqueues it again."""

    def __init__(self, jid: str, group: str, message: str) -> None:
        super().__init__(f"Job {jid} failed in group {group!r}: {message}")
        self.jid = jid
        self.group = group
        self.message = message

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, str, str]]:
        return type(self), (self.jid, self.group, self.message)


class ResultGone(NoResult):
    """The job is complete, and what it returned is not kept any more. Ask sooner, or give
    the job a longer result_ttl."""


class JobGone(NoResult):
    """It was canceled, it has expired from the history of completed jobs, or it was
    never enqueued: its transaction was rolled back, say."""


class Retry(Exception):
    """Raised inside a job: run it again, after `delay` seconds or a timedelta.

    Uses up one of the job's retries; without a delay the job's backoff decides. When
    none is left the job fails in the failure group `group` (default:
    `failed-retries-<queue>`), with `message`.
    """

    def __init__(
        self,
        delay: float | timedelta | None = None,
        *,
        message: str = "",
        group: str = "",
    ) -> None:
        super().__init__(delay, message, group)
        seconds = getattr(delay, "total_seconds", None)
        self.delay: float | None = seconds() if seconds else delay  # type: ignore[assignment]
        self.message = message
        self.group = group

    def __str__(self) -> str:
        return self.message or "the job asked to be run again"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), message=self.message, group=self.group), (
            self.delay,
        )


class Fail(Exception):
    """Raised inside a job: it fails for good in the failure group `group`, whatever retries
    are left. `message` is kept with it, for people."""

    def __init__(self, group: str, message: str = "") -> None:
        super().__init__(group, message)
        self.group = group
        self.message = message

    def __str__(self) -> str:
        return self.message or self.group


class RowGone(Fail):
    """The row that the job needs is not in the database any more."""

    def __init__(self, message: str) -> None:
        super().__init__("row-gone", message)

    def __reduce__(self) -> tuple[type[RowGone], tuple[str]]:
        return type(self), (self.message,)


class Interrupted(Exception):
    """Raised inside a job from outside, wherever it happens to be: stop now.

    A job may catch it to tidy up, and should raise it again; what it returns instead
    counts as its result. Code in C is not disturbed: a query, a long computation of
    numpy. Python raises the exception when that code returns. In the main thread of a
    process (pools prefork and fork) waiting in a system call ends at once; in other
    threads it ends when it ends by itself. In a coroutine the job sees
    asyncio.CancelledError at its `await`, and this exception takes its place when it
    leaves the job.
    """


class JobTimeout(Interrupted):
    """The job has run longer than its `timeout`.

    If it leaves the job, the run ends in the failure group `timeout`, after its
    retries.
    """

    group = "timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the job ran longer than its timeout of {self.seconds:g} s"


class ShuttingDown(Interrupted):
    """The worker has to end, and the time that it gives to running jobs is over.

    If it leaves the job, the job is handed back: another worker runs it from its
    beginning, and none of its retries is used up. A process that goes on instead is
    killed a little later, and its job is handed back all the same.
    """

    def __str__(self) -> str:
        return "the worker is shutting down"


class JobLost(Interrupted):
    """The job has been taken away from this worker: cancelled, or its lock was lost.

    Another worker may run it already, and nothing that this run says about its end
    will be taken.
    """

    def __str__(self) -> str:
        return "the job is no longer held by this worker"


class BatchFailure(Exception):
    """Raise it in a job of entities: those named have failed, all others are done."""

    def __init__(self, errors: Mapping[Any, BaseException | str]) -> None:
        """`errors` has the error of each entity that failed: an exception, or a text."""
        super().__init__(
            f"{len(errors)} entities failed: {', '.join(map(str, errors))}"
        )
        self.errors = dict(errors)

    def of(self, entities: Sequence[str]) -> list[BaseException | None]:
        """Return the errors of these entities of a run, None for those that are done."""
        named = {str(entity): error for entity, error in self.errors.items()}
        if unknown := named.keys() - set(entities):
            names = ", ".join(sorted(unknown))
            error = ValueError(f"BatchFailure names {names}, not in the batch")
            return [error for _ in entities]
        found: list[BaseException | None] = []
        for entity in entities:
            error_of = named.get(entity)
            is_text = error_of is not None and not isinstance(error_of, BaseException)
            found.append(RuntimeError(str(error_of)) if is_text else error_of)
        return found
