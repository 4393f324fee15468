"""Structured log lines: one for each worker event and for each job's outcome.

    2026-01-31 12:00:00,123 812 INFO done worker=w1 queue=mail jid=9f… seconds=0.25

A handler that writes JSON finds the same in two attributes of the record: `action`, the
words in front ("done"), and `fields`, a dict of what follows. The fields have the same
names in all events: worker, queue, jid, klass, pid, seconds. A job that failed for good
has its exception in the record's `exc_info`.
"""

from __future__ import annotations

import json
import logging
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

from django_qless.core.exceptions import QlessError
from django_qless.worker import failure_report

if TYPE_CHECKING:
    from django_qless.core import Reserved, Settlement

logger = logging.getLogger("django_qless.worker")

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

CALLS = 5
"""A level below DEBUG: each call to the server."""

LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG, CALLS)
"""What is logged at -v 0 to 3: trouble only; what matters; every job; every call."""

# Levels and actions by verb. The parent logs "crash", because it sees it.
OUTCOMES = {
    "complete": (logging.DEBUG, "done"),
    "move": (logging.DEBUG, "moved"),
    "retry": (logging.WARNING, "failed, to be tried again"),
    "fail": (logging.ERROR, "failed"),
    "release": (logging.INFO, "handed back"),
    "unknown": (logging.WARNING, "unknown job name"),
}

#: The remedy that the core writes into the job's history and failure.
UNKNOWN_HINT = (
    "Is its app in INSTALLED_APPS, is its module called jobs or tasks, was it renamed "
    "without aliases=?"
)

#: Errors that come of a mistake in code, not of a server or a system.
DEFECTS = (
    *(ArithmeticError, AssertionError, AttributeError),
    *(LookupError, NameError, TypeError),
)
REPORT = "Unexpected error. If it originates in django_qless, please report it:"

# Verbs whose outcomes end with group and message.
FAILURES = ("retry", "fail")

#: Fields of every event of this process.
_common: dict[str, object] = {}


def set_worker_name(worker: str) -> None:
    """Name this worker in all events of this process and its children."""
    _common["worker"] = worker


def is_enabled(level: int) -> bool:
    """Return whether events of this level are logged at all."""
    return logger.isEnabledFor(level)


def log_event(level: int, action: str, **fields: object) -> None:
    """Log an event: `action` and the fields, in the text and as attributes.

    An `error` that comes of a mistake in code has its traceback below.
    """
    error = fields.get("error")
    is_defect = isinstance(error, DEFECTS) and not isinstance(error, QlessError)
    below = defect_report(error) if is_defect else ""
    log_lines(level, action, fields, below=below)


def log_lines(
    level: int,
    action: str,
    fields: dict[str, object],
    *,
    below: str = "",
    exc_info: ExcInfo | None = None,
) -> None:
    """Log an event, with `below` under its line."""
    if not logger.isEnabledFor(level):
        return
    fields = _common | fields
    text = " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())
    rest = f"\n{below.rstrip()}" if below else ""
    extra = {"action": action, "fields": fields}
    logger.log(level, "%s %s%s", action, text, rest, exc_info=exc_info, extra=extra)


def defect_report(error: Any) -> str:
    """Return the traceback of an unexpected error, and what to do with it."""
    # As text: frames hold arguments, and Sentry and mails to admins show variables.
    return f"{REPORT}\n{''.join(traceback.format_exception(error))}"


def log_job_event(
    level: int, action: str, reserved: Reserved, **fields: object
) -> None:
    """Log an event of this job."""
    log_lines(level, action, _fields_of(reserved) | fields)


def configure_logging(verbosity: int) -> None:
    """Show the worker's log, unless the project has configured logging itself."""
    if logger.hasHandlers():
        return
    logging.addLevelName(CALLS, "CALL")
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s")
    )
    logger.addHandler(handler)
    logger.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])
    logger.propagate = False


def _quoted(value: object) -> str:
    """Return a value as one word, quoted if necessary."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if not text.isprintable():
        return json.dumps(text)
    if not text or any(mark in text for mark in ' "='):
        return json.dumps(text, ensure_ascii=False)
    return text


def is_final_failure(reserved: Reserved, outcome: Settlement) -> bool:
    """Return whether this outcome is a failure that will not be tried again."""
    return outcome.verb == "fail" or (
        outcome.verb == "retry" and reserved.remaining < 1
    )


def log_outcome(
    reserved: Reserved,
    outcome: Settlement,
    seconds: float,
    error: BaseException | None = None,
    *,
    hides: bool = False,
) -> None:
    """Log a job's outcome and duration, and its exception if it failed.

    A final failure has the exception with its traceback. With `hides` that is text
    only: its frames hold the arguments, and Sentry and mails to admins show variables.
    """
    level, action, fields = describe_outcome(reserved, outcome)
    fields["seconds"] = f"{seconds:.6f}"
    below = ""
    exc_info: ExcInfo | None = None
    if error is not None and outcome.verb in FAILURES:
        fields["error"] = failure_report.summary_of(error)
        if level >= logging.ERROR and hides:
            below = str(outcome.args[-1])
        elif level >= logging.ERROR:
            # The first frame is the execution's own.
            trace = error.__traceback__ and error.__traceback__.tb_next
            exc_info = type(error), error, failure_report.job_traceback(trace)
    log_lines(level, action, fields, below=below, exc_info=exc_info)


def describe_outcome(
    reserved: Reserved, outcome: Settlement
) -> tuple[int, str, dict[str, object]]:
    """Return level, action and fields of an outcome's log line.

    A retry is a failure when the job has no retry left: the server will decide so.
    """
    verb = outcome.verb
    fields = _fields_of(reserved)
    if verb == "retry":
        if is_final_failure(reserved, outcome):
            verb = "fail"
        else:
            fields["delay"] = outcome.args[0]
    # (A retry that the job has asked for may have no group.)
    if outcome.verb in FAILURES and (group := outcome.args[-2]):
        fields["group"] = group
    if verb == "unknown":
        fields["hint"] = UNKNOWN_HINT
    level, action = OUTCOMES[verb]
    return level, action, fields


def log_expired_lock(reserved: Reserved) -> None:
    """Log that a job was not started because its lock expired in the buffer."""
    log_job_event(logging.INFO, "not started, its lock has run out", reserved)


def _fields_of(reserved: Reserved) -> dict[str, object]:
    return {"queue": reserved.queue, "jid": reserved.jid, "klass": reserved.klass}
