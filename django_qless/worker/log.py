"""One structured log line per event of a worker.

    2026-01-31 12:00:00,123 812 INFO done worker=w1 queue=mail jid=9f… seconds=0.25

A handler that writes JSON finds the same in two attributes of the record: `action`, the
words in front ("done"), and `fields`, a dict of what follows. The fields are named alike
in all events: worker, queue, jid, klass, pid, seconds. A job that failed for good has its
exception in the record's `exc_info`.
"""

from __future__ import annotations

import json
import logging
from types import TracebackType

logger = logging.getLogger("django_qless.worker")

Raised = tuple[type[BaseException], BaseException, TracebackType | None]

CALLS = 5
"""A level below DEBUG: each call to the server."""

LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG, CALLS)
"""What is logged at -v 0 to 3: trouble only; what matters; every job; every call."""

#: What every event of this process says: whose it is.
_common: dict[str, object] = {}


def speak_for(worker: str) -> None:
    """Let the events of this process, and of its children, name this worker."""
    _common["worker"] = worker


def hears(level: int) -> bool:
    """Return whether events of this level are logged at all."""
    return logger.isEnabledFor(level)


def event(level: int, action: str, **fields: object) -> None:
    """Log what happened: `action` and the fields, in the text and as attributes."""
    write(level, action, fields)


def write(
    level: int,
    action: str,
    fields: dict[str, object],
    *,
    raised: Raised | None = None,
    below: str = "",
) -> None:
    """Log an event; `raised` goes into the record's `exc_info`, `below` under the line."""
    if logger.isEnabledFor(level):
        fields = _common | fields
        told = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
        extra = {"action": action, "fields": fields}
        rest = f"\n{below.rstrip()}" if below else ""
        logger.log(level, "%s %s%s", action, told, rest, exc_info=raised, extra=extra)


def show(verbosity: int) -> None:
    """Let the worker's log be seen, unless the project has configured logging itself."""
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


def _shown(value: object) -> str:
    """Return a value as one word: quoted if it is none, so that a line stays a line."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if not text.isprintable():
        return json.dumps(text)
    if not text or any(mark in text for mark in ' "='):
        return json.dumps(text, ensure_ascii=False)
    return text
