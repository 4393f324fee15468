"""The settle command: settlements of finished jobs, and the jobs handed out in return."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from . import arguments, protocol
from .exceptions import BadArgument, QlessError
from .protocol import Argument, Packed, pack
from .retry import TABLE


def read_number(text: str) -> int | float:
    """Read a number that is mostly whole."""
    try:
        return int(text)
    except ValueError:
        return float(text)


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
    "move": (2, 3, 4),
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
    def is_sealed(self) -> bool:
        """True if data or context are compressed or encrypted."""
        return self.data.startswith(SEALED) or SEALED in self.context

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
    crash (limit, group, message) · move (next, delay[, depends-json[, namespace]]).
    A namespace is that of the queue `next`, if it is another one; depends is "[]" then.
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
    #: If nothing was handed out and `wait` was given: how many seconds to wait, by blpop.
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
    #: Orders to the worker: quiet, resume, stop or dump, the oldest first. Each comes once.
    orders: list[str]


def _reserved(texts: list[Any]) -> Reserved:
    jid, queue, klass, data, token, *numbers = texts
    retries, remaining, priority, tags, context, expires, *batch = numbers
    return Reserved(
        jid=jid,
        queue=queue,
        klass=klass,
        data=data,
        token=token,
        retries=int(retries),
        remaining=int(remaining),
        priority=read_number(priority),
        tags=tags,
        context=context,
        expires=float(expires),
        batch=int(batch[0]) if batch else 0,
    )


def _exhausted(fields: list[Any]) -> Exhausted:
    group, message, texts = fields
    return Exhausted(group, message, _reserved(texts))


def read_settled(reply: list[Any]) -> Settled:
    """Read the reply to settle."""
    refused, jobs, waiting, *more = reply
    seconds, keys = (float(waiting[0]), waiting[1:]) if waiting else (None, ())
    return Settled(
        refused=[Refused._make(fields) for fields in refused],
        jobs=[_reserved(texts) for texts in jobs],
        wait_seconds=seconds,
        wait_keys=keys,
        now=float(more[0]) if more else 0.0,
        exhausted=list(map(_exhausted, more[1])) if len(more) > 1 else (),
    )


def add_settled(answers: list[Settled]) -> Settled:
    """Return one answer for the parts of a split settle."""
    refused = [refusal for answer in answers for refusal in answer.refused]
    return answers[-1]._replace(refused=refused)


def read_beat(reply: list[Any]) -> Beat:
    """Read the reply to beat."""
    lost, orders = reply
    return Beat(lost, orders)


def add_beats(answers: list[Beat]) -> Beat:
    """Return one answer for the parts of a split beat."""
    return Beat(
        [jid for answer in answers for jid in answer.lost],
        [order for answer in answers for order in answer.orders],
    )


#: A part of a request that settles nothing.
NO_SETTLEMENTS = (0, Packed(0, b""))


def packed_settlements(settlements: Iterable[Settlement]) -> list[tuple[int, Packed]]:
    """Cut settlements into parts that one command may have, with their numbers."""
    packed = list(map(_packed, settlements))
    if not packed:
        return [NO_SETTLEMENTS]
    if len(packed) == 1:
        return [(1, packed[0])]
    pieces = ((1, *each) for each in packed)
    return list(protocol.batches(pieces, arguments.MOST_JOBS))


_COMPLETE = pack(("complete", 0))


def _packed(settlement: Settlement) -> Packed:
    try:
        jid, token, verb, args, *more = settlement
    except (TypeError, ValueError):
        raise BadArgument(
            f"a settlement has jid, token, verb and args, unlike "
            f"{arguments.quoted(settlement)}"
        ) from None
    held = held_text(more[0]) if more else ""
    if not args and verb == "complete":
        return pack((jid, token, held, _COMPLETE))
    if len(args) not in VERBS.get(verb, ()):
        raise BadArgument(_bad_verb(verb, args))
    for position, arg in enumerate(args):
        if isinstance(arg, str) and len(arg) * 4 > arguments.TEXT_BYTES:
            is_data = verb == "complete" and position == 2
            most = arguments.DATA_BYTES if is_data else arguments.TEXT_BYTES
            arguments.text(f"argument {position + 1} of {verb}", arg, most=most)
    fields: tuple[Argument, ...] = (jid, token, held, verb, len(args), *args)
    return pack(fields)


def held_text(held: float | None) -> str:
    """Return the seconds from hand-out to start as text, in milliseconds."""
    if held is None:
        return ""
    if type(held) is not float:
        held = arguments.number("held", held)
    if held < 0.0005:
        return "0"
    if held == math.inf or held != held:
        raise BadArgument(f"held must be a finite number of seconds, not {held}")
    return f"{held:.3f}"


def _bad_verb(verb: object, args: Sequence[object]) -> str:
    if verb not in VERBS:
        return f"{arguments.quoted(verb)} is no verb: use one of {', '.join(VERBS)}"
    numbers = " or ".join(map(str, VERBS[str(verb)]))
    return f"{verb} takes {numbers} arguments, not {arguments.quoted(args)}"
