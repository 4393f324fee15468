"""What a worker and the core say to each other: settlements one way, jobs the other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from . import arguments, protocol
from .exceptions import BadArgument, QlessError
from .protocol import Argument, Packed, pack
from .retry import TABLE

# How many arguments each verb takes.
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
    """A job that was handed out. data, tags and context are JSON texts as they came."""

    jid: str
    queue: str
    klass: str
    data: str
    #: Proves that this holder, and no earlier one, holds the lock.
    token: str
    retries: int
    remaining: int
    priority: int | float
    tags: str
    context: str
    #: When the lock ends unless a heartbeat prolongs it, by the server's clock.
    expires: float

    @property
    def tag_list(self) -> list[str]:
        """The tags, read."""
        return json.loads(self.tags or "[]") or []

    @property
    def context_object(self) -> dict[str, Any]:
        """The context, read; empty if there is none."""
        return json.loads(self.context) if self.context else {}


class Settlement(NamedTuple):
    """How a held job ends.

    verb and args: complete (result, result_ttl[, data]) · fail (group, message) ·
    retry (delay, group, message) · release (delay,) · unknown (patience,) ·
    crash (limit, group, message) · move (next, delay[, depends-json]).
    """

    jid: str
    token: str
    verb: str
    args: tuple[str | bytes | int | float, ...] = ()
    #: Seconds that the job lay in its holder's hands before its run began; None if it did
    #: not, or if nobody knows when. What only a run can end so counts from its hand-out then.
    held: float | None = None


class Refused(NamedTuple):
    """A settlement that changed nothing."""

    jid: str
    code: str
    text: str

    @property
    def error(self) -> QlessError:
        """The exception that a call for this job alone would have raised."""
        return TABLE.get(self.code, TABLE["ERR"])[1](self.text)


class Settled(NamedTuple):
    """The answer to settle."""

    #: Settlements that changed nothing.
    refused: list[Refused]
    #: The jobs handed out.
    jobs: list[Reserved]
    #: If nothing was handed out and `wait` was given: block so long on these keys.
    wait_seconds: float | None = None
    wait_keys: Sequence[str] = ()
    #: The server's time, by which the locks on the jobs are measured; 0.0: not asked for any.
    now: float = 0.0


class Beat(NamedTuple):
    """The answer to a heartbeat."""

    #: Jobs whose lock is lost.
    lost: list[str]
    #: What the worker is asked to do: quiet, resume, stop or dump, the oldest first. Each is
    #: told once.
    orders: list[str]


def read_settled(reply: list[Any]) -> Settled:
    """Read the reply to settle."""
    refused, jobs, rest, *times = reply
    refusals = [Refused._make(fields) for fields in refused]
    handed_out = [_reserved(fields) for fields in jobs]
    now = float(times[0]) if times else 0.0
    if not rest:
        return Settled(refusals, handed_out, now=now)
    return Settled(refusals, handed_out, float(rest[0]), rest[1:], now)


def _reserved(texts: list[str]) -> Reserved:
    jid, queue, klass, data, token, *numbers, tags, context, expires = texts
    retries, remaining, priority = numbers
    return Reserved(
        *(jid, queue, klass, data, token),
        *(int(retries), int(remaining), read_number(priority)),
        *(tags, context, float(expires)),
    )


def add_settled(answers: list[Settled]) -> Settled:
    """Return the sum of the answers to the parts of a split call."""
    refused = [refusal for answer in answers for refusal in answer.refused]
    return answers[-1]._replace(refused=refused)


def read_beat(reply: list[Any]) -> Beat:
    """Read the reply to beat."""
    lost, orders = reply
    return Beat(lost, orders)


def add_beats(answers: list[Beat]) -> Beat:
    """Return the sum of the answers to the parts of a split call."""
    return Beat(
        [jid for answer in answers for jid in answer.lost],
        [order for answer in answers for order in answer.orders],
    )


#: A part of a call that settles nothing.
NO_SETTLEMENTS = (0, Packed(0, b""))


def packed_settlements(
    settlements: Iterable[Settlement],
) -> Iterator[tuple[int, Packed]]:
    """Cut settlements into parts that one call may have: how many, and their bytes."""
    packed = list(map(_packed, settlements))
    if len(packed) == 1:
        return iter([(1, packed[0])])
    return protocol.batches(packed, arguments.MOST_JOBS)


_COMPLETE = pack(("complete", 0))


def _packed(settlement: Settlement) -> Packed:
    try:
        jid, token, verb, args, *more = settlement
    except (TypeError, ValueError):
        raise BadArgument(
            f"a settlement has jid, token, verb and args, unlike "
            f"{arguments.shown(settlement)}"
        ) from None
    lay = held_text(more[0]) if more else ""
    if not args and verb == "complete":
        return pack((jid, token, lay, _COMPLETE))
    if len(args) not in VERBS.get(verb, ()):
        raise BadArgument(_bad_verb(verb, args))
    for position, arg in enumerate(args):
        if isinstance(arg, str) and len(arg) * 4 > arguments.TEXT_BYTES:
            is_data = verb == "complete" and position == 2
            most = arguments.DATA_BYTES if is_data else arguments.TEXT_BYTES
            arguments.text(f"argument {position + 1} of {verb}", arg, most=most)
    fields: tuple[Argument, ...] = (jid, token, lay, verb, len(args), *args)
    return pack(fields)


def held_text(held: float | None) -> str:
    """Return how long a job lay in its holder's hands as it travels: milliseconds count."""
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
        return f"{arguments.shown(verb)} is no verb: use one of {', '.join(VERBS)}"
    numbers = " or ".join(map(str, VERBS[str(verb)]))
    return f"{verb} takes {numbers} arguments, not {arguments.shown(args)}"


def read_number(text: str) -> int | float:
    """Read a number that is mostly whole."""
    try:
        return int(text)
    except ValueError:
        return float(text)
