"""Jobs that were handed out, and the outcomes of held ones: the values of `settle`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from .exceptions import QlessError
from .retry import TABLE

#: How texts begin that only a project with their keys can read: data, results, contexts.
SEALED = '"qless:'


# The numbers of arguments that each verb takes.
VERBS: dict[str, tuple[int, ...]] = {
    "complete": (0, 2, 3),
    "fail": (2,),
    "retry": (3,),
    "release": (1,),
    "unknown": (1,),
    "crash": (3,),
    "move": (2, 3),
}


class Reserved(NamedTuple):
    """A job that was handed out. data, tags and context are unparsed JSON texts.

    The core sends the fields in this order.
    """

    jid: str
    queue: str
    klass: str
    data: str
    #: Proof that this holder, and no earlier one, holds the lock.
    token: str
    retries: int
    remaining: int
    priority: int | float
    tags: str
    context: str
    #: When the lock ends unless a heartbeat extends it, by the server's clock.
    expires: float
    #: How many entities may run together; 0: the job carries no entity.
    batch: int = 0

    @property
    def tag_list(self) -> list[str]:
        """The tags, read."""
        return json.loads(self.tags or "[]") or []

    @property
    def context_object(self) -> dict[str, Any]:
        """The context, read; empty if there is none."""
        return json.loads(self.context) if self.context else {}


class Settlement(NamedTuple):
    """The outcome of a held job.

    verb and args: complete (result, result_ttl[, data]) · fail (group, message) ·
    retry (delay, group, message) · release (delay,) · unknown (patience,) ·
    crash (limit, group, message) · move (next, delay[, depends-json]).
    """

    jid: str
    token: str
    #: What to do with the job: one of the words above.
    verb: str
    #: The arguments of the verb.
    args: tuple[str | bytes | int | float, ...] = ()
    #: Seconds from the job's hand-out to the start of its run; None if it did not run, or if
    #: the time is unknown. An outcome that only a run can have counts from the hand-out then.
    held: float | None = None


class Refused(NamedTuple):
    """A settlement that the core refused. It sends the fields in this order."""

    jid: str
    code: str
    text: str

    @property
    def error(self) -> QlessError:
        """The exception that a command for this job alone would have raised."""
        return TABLE.get(self.code, TABLE["ERR"])[1](self.text)


class Exhausted(NamedTuple):
    """A job that has failed for good, as its last lock was lost."""

    group: str
    message: str
    #: The job as its last worker had it.
    job: Reserved


class Settled(NamedTuple):
    """The answer to settle."""

    #: Settlements that changed nothing.
    refused: list[Refused]
    #: The jobs handed out.
    jobs: list[Reserved]
    #: If nothing was handed out and `wait` was given: how many seconds to wait, by bzpopmin.
    wait_seconds: float | None = None
    #: The keys for that.
    wait_keys: Sequence[str] = ()
    #: The server's time, which `expires` refers to; 0.0 if no jobs were asked for.
    now: float = 0.0
    #: Jobs that this call has found to have failed, if they were asked for.
    exhausted: Sequence[Exhausted] = ()


class Beat(NamedTuple):
    """The answer to a heartbeat."""

    #: Jobs whose lock is lost.
    lost: list[str]
    #: Orders to the worker: quiet, resume or stop, the oldest first. Each comes once.
    orders: list[str]
