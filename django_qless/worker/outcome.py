"""The outcome of a run, and the table of what follows from it.

A run ends in one value, an `Outcome`. Its kind is a row of the table below: how the job is
settled, which signal is sent, and what the log says.
"""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from django_qless.core import Settlement
from django_qless.worker import failure_report
from django_qless.worker.log import ExcInfo, job_fields, log_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Reserved

    Args = tuple[str | float, ...]

#: The remedy that the core writes into the job's history and failure.
UNKNOWN_HINT = (
    "Is its app in INSTALLED_APPS, is its module called jobs or tasks, was it renamed "
    "without aliases=?"
)


class Kind(NamedTuple):
    """A row of the table: what follows from outcomes of this kind."""

    verb: str
    """The verb of the settlement."""
    args: Callable[[Outcome], Args]
    """Returns its arguments."""
    event: str
    """The event that is announced, "" for none."""
    details: tuple[str, ...]
    """Attributes of the outcome that are announced with it."""
    level: int
    """The level of the log line."""
    action: str
    """Its first words."""
    fields: tuple[str, ...] = ()
    """Attributes of the outcome in the log line, if they are not empty."""


class Outcome(NamedTuple):
    """How a run has ended."""

    kind: Kind
    result: object = None
    """The function's return value."""
    args: Args = ()
    """The arguments of the verbs complete and move."""
    exception: BaseException | None = None
    """What the job raised."""
    group: str = ""
    message: str = ""
    delay: float = 0
    """Seconds until the job is offered again."""

    @property
    def details(self) -> dict[str, object]:
        """What is announced with the kind's event."""
        return {name: getattr(self, name) for name in self.kind.details}

    @property
    def is_final_failure(self) -> bool:
        """True if the job has failed and will not be tried again."""
        return self.kind.event == "failed"

    def settlement(self, reserved: Reserved) -> Settlement:
        """Return the settlement of this job.

        The caller adds how long the job was held before it ran. One of an unknown name
        was not run.
        """
        kind = self.kind
        held = None if kind is UNKNOWN else 0.0
        return Settlement(
            reserved.jid, reserved.token, kind.verb, kind.args(self), held
        )


def _delay(outcome: Outcome) -> Args:
    return (outcome.delay,)


_args = attrgetter("args")
_failure = attrgetter("group", "message")
_retry = attrgetter("delay", "group", "message")
RESULT = ("result",)
FAILURE = ("exception", "group", "message")

COMPLETE = Kind("complete", _args, "completed", RESULT, DEBUG, "done")
MOVE = Kind("move", _args, "completed", RESULT, DEBUG, "moved")
FAIL = Kind("fail", _failure, "failed", FAILURE, ERROR, "failed", ("group",))
RETRY = Kind(
    *("retry", _retry, "retried", (*FAILURE, "delay")),
    *(WARNING, "failed, to be tried again", ("delay", "group")),
)
#: A retry without one left: the server, which counts them, fails the job.
EXHAUSTED = FAIL._replace(verb="retry", args=_retry)
#: A job that is handed back, or whose name is unknown here, has not ended.
RELEASE = Kind("release", _delay, "", (), INFO, "handed back")
UNKNOWN = Kind("unknown", _delay, "", (), WARNING, "unknown job name")


def log_outcome(
    reserved: Reserved, outcome: Outcome, seconds: float, *, hides: bool
) -> None:
    """Log an outcome and its duration, and the exception of a failure.

    A final failure has the exception with its traceback. With `hides` that is text
    only: its frames hold the arguments, and Sentry and mails to admins show variables.
    """
    kind = outcome.kind
    shown = {name: getattr(outcome, name) for name in kind.fields}
    fields = job_fields(reserved)
    fields |= {name: value for name, value in shown.items() if value != ""}
    if kind is UNKNOWN:
        fields["hint"] = UNKNOWN_HINT
    fields["seconds"] = f"{seconds:.6f}"
    below = ""
    exc_info: ExcInfo | None = None
    error = outcome.exception
    if error is not None and kind is not RELEASE:
        fields["error"] = failure_report.summary_of(error)
        if outcome.is_final_failure and hides:
            below = outcome.message
        elif outcome.is_final_failure:
            trace = failure_report.job_traceback(error.__traceback__)
            exc_info = type(error), error, trace
    log_lines(kind.level, kind.action, fields, below=below, exc_info=exc_info)
