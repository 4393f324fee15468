"""One structured log line per event of a worker."""

from __future__ import annotations

import logging

logger = logging.getLogger("django_qless.worker")

LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG)
"""What is logged at -v 0, 1, 2: trouble only; what matters; every job."""


def event(level: int, action: str, **fields: object) -> None:
    """Log what happened: `action` and the fields, in the text and as attributes.

    Handlers that write JSON find the same in the record's `action` and `fields`.
    """
    if logger.isEnabledFor(level):
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        logger.log(
            level, "%s %s", action, told, extra={"action": action, "fields": fields}
        )


def show(verbosity: int) -> None:
    """Let the worker's log be seen, unless the project has configured logging itself."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s")
    )
    logger.addHandler(handler)
    logger.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])
    logger.propagate = False
