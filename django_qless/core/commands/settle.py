"""The settle command: finishes jobs and takes others, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .. import arguments, protocol
from ..connection import pack
from ..exceptions import BadArgument
from ..protocol import Argument, Packed
from ..request import Command, CommandSequence, command
from ..settle import VERBS, Exhausted, Refused, Reserved, Settled, Settlement


class SettleCommands:
    """The command by which a worker finishes jobs, and takes the next."""

    @command
    def settle(
        self,
        worker: str,
        settlements: Iterable[Settlement],
        count: int,
        queues: Sequence[str],
        exclude: Sequence[str] = (),
        wait: int | float | None = None,
        exhausted: bool = False,
    ) -> Command[Settled] | CommandSequence[Settled]:
        """Settle finished jobs, and take up to `count` (at most 250) new ones.

        The queues are asked in the order given; `*` and `?` stand for the known queues
        that match, in order of name, except those that match `exclude`. The next is asked
        when the one before is empty. With `wait`, a worker that gets nothing receives the
        keys on which to block (`bzpopmin`), for at most as many seconds; it should be 5 at
        most, because what falls due later than that wakes no worker. With `exhausted` it
        is told which jobs were found to have failed because their last locks were lost. A
        settlement that is refused (`Settled.refused`) does not stop the others. Works on a
        full server.
        """
        rest = wait, exhausted
        try:
            names = _listed(queues), _listed(exclude)
            template = _cached_template(worker, count, *names, *rest)
        except TypeError:  # No list, or not hashable: refused here.
            template = _template(worker, count, queues, exclude, *rest)
        parts = packed_settlements(settlements)
        if parts[-1][0] and parts[-1][0] + count > arguments.MOST_JOBS:
            parts.append(NO_SETTLEMENTS)
        packed_worker, reserve = template
        last = Command(
            "settle", (packed_worker, *parts[-1], reserve), "drain", _read_settled
        )
        if len(parts) == 1:
            return last
        before = [
            Command(
                "settle", (packed_worker, *part, _NO_RESERVE), "drain", _read_settled
            )
            for part in parts[:-1]
        ]
        sizes = tuple(size for size, _ in parts)
        return CommandSequence((*before, last), sizes, _add_settled)


class _Template(NamedTuple):
    """The common part of a worker's settle commands, checked and packed once."""

    worker: Packed
    reserve: Packed


_NO_RESERVE = pack((0, 0))


def _template(
    worker: str,
    count: int,
    queues: Sequence[str],
    exclude: Sequence[str],
    wait: int | float | None,
    exhausted: bool,
) -> _Template:
    names = arguments.existing_names("queues", queues)
    reserve: list[Argument] = [jobs_wanted(count), len(names), *names]
    for pattern in arguments.existing_names("exclude", exclude):
        reserve += "exclude", pattern
    if wait is not None:
        reserve += "wait", arguments.number("wait", wait)
    if exhausted:
        reserve += "exhausted", 1
    return _Template(pack((arguments.name("worker", worker),)), pack(reserve))


_cached_template = lru_cache(maxsize=1000, typed=True)(_template)


def _listed(names: Sequence[str]) -> Sequence[str]:
    return names if isinstance(names, str) else tuple(names)


def jobs_wanted(count: int) -> int:
    """Return how many of the wanted jobs one command takes."""
    return min(arguments.integer("count", count, 0), arguments.MOST_JOBS)


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
        priority=_number(priority),
        tags=tags,
        context=context,
        expires=float(expires),
        batch=int(batch[0]) if batch else 0,
    )


def _exhausted(fields: list[Any]) -> Exhausted:
    group, message, texts = fields
    return Exhausted(group, message, _reserved(texts))


def _read_settled(reply: list[Any]) -> Settled:
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


def _add_settled(answers: list[Settled]) -> Settled:
    """Return one answer for the parts of a split settle."""
    refused = [refusal for answer in answers for refusal in answer.refused]
    return answers[-1]._replace(refused=refused)


def _number(text: str) -> int | float:
    """Read a number that is mostly whole."""
    try:
        return int(text)
    except ValueError:
        return float(text)
