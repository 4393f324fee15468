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

if TYPE_CHECKING:
    from django_qless.core import Reserved, Settlement

logger = logging.getLogger("django_qless.worker")

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

CALLS = 5
"""A level below DEBUG: each call to the server."""

LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG, CALLS)
"""What is logged at -v 0 to 3: trouble only; what matters; every job; every call."""

#: Errors that come of a mistake in code, not of a server or a system.
DEFECTS = (
    *(ArithmeticError, AssertionError, AttributeError),
    *(LookupError, NameError, TypeError),
)
REPORT = "Unexpected error. If it originates in django_qless, please report it:"

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
    log_lines(level, action, job_fields(reserved) | fields)


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


def log_expired_lock(reserved: Reserved) -> None:
    """Log that a job was not started because its lock had expired."""
    log_job_event(logging.INFO, "not started, its lock has run out", reserved)


def job_fields(reserved: Reserved) -> dict[str, object]:
    """Return the fields that identify a job."""
    return {"queue": reserved.queue, "jid": reserved.jid, "klass": reserved.klass}
