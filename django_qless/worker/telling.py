"""What is said of a run that has ended: the log line's level, word and fields."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django_qless.worker.log import event

if TYPE_CHECKING:
    from django_qless.core import Reserved, Settlement

# Levels and words by verb. "crash" is told by the parent, which sees it.
TOLD = {
    "complete": (logging.DEBUG, "done"),
    "move": (logging.DEBUG, "moved"),
    "retry": (logging.WARNING, "failed, to be tried again"),
    "fail": (logging.WARNING, "failed"),
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


def tell(reserved: Reserved, settlement: Settlement, seconds: float) -> None:
    """Log how a job ended after so many seconds, in one line."""
    level, word, fields = outcome_word(reserved, settlement)
    event(level, word, **fields, seconds=f"{seconds:.6f}")


def is_final(reserved: Reserved, settlement: Settlement) -> bool:
    """Return whether this outcome is a failure that will not be tried again."""
    return settlement.verb == "fail" or (
        settlement.verb == "retry" and reserved.remaining < 1
    )


def tell_of_lapse(reserved: Reserved) -> None:
    """Log that a job was not started, for its lock ran out while it was in our hands."""
    fields = {"queue": reserved.queue, "jid": reserved.jid, "klass": reserved.klass}
    event(logging.INFO, "not started, its lock has run out", **fields)
