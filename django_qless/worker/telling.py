"""What is said of a run that has ended: the log line's level, word and fields."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_qless.worker import failures
from django_qless.worker.log import event, hears, write

if TYPE_CHECKING:
    from django_qless.core import Reserved, Settlement

# Levels and words by verb. "crash" is told by the parent, which sees it.
TOLD = {
    "complete": (logging.DEBUG, "done"),
    "move": (logging.DEBUG, "moved"),
    "retry": (logging.WARNING, "failed, to be tried again"),
    "fail": (logging.ERROR, "failed"),
    "release": (logging.INFO, "handed back"),
    "unknown": (logging.WARNING, "unknown job name"),
}


def outcome_word(
    reserved: Reserved, settlement: Settlement
) -> tuple[int, str, dict[str, object]]:
    """Return the level, the word and the fields that tell how a job's run ended.

    A retry is told as a failure when the job has no retry left: the server will say so.
    """
    verb = settlement.verb
    fields: dict[str, object] = {
        "queue": reserved.queue,
        "jid": reserved.jid,
        "klass": reserved.klass,
    }
    if verb == "retry":
        if is_final(reserved, settlement):
            verb = "fail"
        else:
            fields["delay"] = settlement.args[0]
    if verb in ("retry", "fail"):
        # Both verbs end with group and message.
        fields["group"] = settlement.args[-2]
    level, word = TOLD[verb]
    return level, word, fields


def is_told(settlement: Settlement) -> bool:
    """Return whether the end of a run is logged: a job that is done only in DEBUG."""
    return settlement.verb != "complete" or hears(logging.DEBUG)


def tell(
    reserved: Reserved,
    settlement: Settlement,
    seconds: float,
    error: BaseException | None = None,
    *,
    hides: bool = False,
) -> None:
    """Log how a job ended after so many seconds, and what it raised, if it failed.

    A failure for good has the exception with its traceback. With `hides` that is text
    only: its frames hold the arguments, and Sentry and mails to admins show variables.
    """
    level, word, fields = outcome_word(reserved, settlement)
    fields["seconds"] = f"{seconds:.6f}"
    if error is None or "group" not in fields:
        write(level, word, fields)
        return
    fields["error"] = failures.line_of(error)
    if level < logging.ERROR:
        write(level, word, fields)
    elif hides:
        write(level, word, fields, below=str(settlement.args[-1]))
    else:
        # The first frame is the execution's own.
        trace = error.__traceback__ and error.__traceback__.tb_next
        raised = type(error), error, failures.own_code(trace)
        write(level, word, fields, raised=raised)


def is_final(reserved: Reserved, settlement: Settlement) -> bool:
    """Return whether this outcome is a failure that will not be tried again."""
    return settlement.verb == "fail" or (
        settlement.verb == "retry" and reserved.remaining < 1
    )


def tell_of_lapse(reserved: Reserved) -> None:
    """Log that a job was not started, for its lock ran out while it was in our hands."""
    fields = {"queue": reserved.queue, "jid": reserved.jid, "klass": reserved.klass}
    event(logging.INFO, "not started, its lock has run out", **fields)
