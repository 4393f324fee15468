"""Jobs to be put, and batches of them as bytes.

Ten thousand jobs are put in a few hundred milliseconds, so an item is packed with one
formatting; what items have in common (queue, name, options) is checked and packed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from . import arguments, wire
from .exceptions import BadArgument
from .wire import Argument, Packed, pack

# The longest jid and data whose bytes need not be counted.
_SHORT_JID = arguments.NAME_BYTES // 4
_SHORT_DATA = arguments.DATA_BYTES // 4


class Put(NamedTuple):
    """A job to be put. What is None is left to the core: a new job gets
    priority 0, 5 retries, no tags; an existing one keeps what it has."""

    jid: str
    queue: str
    #: The name of the job's type.
    klass: str
    #: JSON text, stored as it is.
    data: str
    #: Seconds until the job is ready.
    delay: int | float = 0
    #: Higher comes first.
    priority: int | float | None = None
    #: How often the job may be tried again.
    retries: int | None = None
    tags: Sequence[str] | None = None
    #: Ids of jobs that must complete first.
    depends: Sequence[str] = ()
    #: The JSON text of an object that is carried beside the data.
    context: str | None = None
    #: Leave an existing job of this id alone.
    absent: bool = False
    #: The job may be given more dependencies, and does not start, until it is sealed.
    open: bool = False


def options(
    priority: int | float | None,
    retries: int | None,
    tags: Sequence[str] | None,
    depends: Sequence[str],
    context: str | None,
    absent: bool,
    open: bool,  # noqa: A002 (the option's name)
) -> list[Argument]:
    """Return the checked options as the flat names and values that the core takes."""
    pairs: list[Argument] = []
    if priority is not None:
        pairs += "priority", arguments.number("priority", priority)
    if retries is not None:
        pairs += "retries", arguments.whole("retries", retries, 0)
    if tags is not None:
        pairs += "tags", arguments.to_json(arguments.tags(tags))
    if depends:
        jids = arguments.all_known("depends", depends)
        pairs += "depends", arguments.to_json(jids)
    if context:
        pairs += "context", arguments.json_object("context", context)
    if absent:
        pairs += "absent", "1"
    if open:
        pairs += "open", "1"
    return pairs


def batches(items: Iterable[Put]) -> Iterator[tuple[int, Packed]]:
    """Cut items into batches that one call may have: how many items, and their bytes.

    The order is kept. Raises BadArgument, which names the item, for the first bad one.
    """
    return wire.batches(_packed(items), arguments.MOST_ITEMS)


def _packed(items: Iterable[Put]) -> Iterator[tuple[int, bytes]]:
    """Yield how many arguments each item is, and their bytes."""
    kinds: dict[tuple[str, str], bytes] = {}
    tails: dict[object, Packed] = {}
    index = 0
    try:
        for index, item in enumerate(items):  # noqa: B007 (for the message)
            jid, queue, klass, data = item[:4]
            if type(jid) is not str or not 0 < len(jid) <= _SHORT_JID or "-" in jid:
                jid = arguments.jid(jid)
            if type(data) is not str or not 0 < len(data) <= _SHORT_DATA:
                data = arguments.data(data)
            kind = kinds.get((queue, klass))
            if kind is None:
                kind = kinds[queue, klass] = _kind(queue, klass)
            rest = item[4:]
            try:
                tail = tails.get(rest)
                if tail is None:
                    tail = tails[rest] = _tail(item)
            except TypeError:  # A list among them: not hashable.
                tail = _tail(item)
            number, end = tail
            name, body = jid.encode(), data.encode()
            yield (
                number + 4,
                b"$%d\r\n%b\r\n%b$%d\r\n%b\r\n%b"
                % (len(name), name, kind, len(body), body, end),
            )
    except BadArgument as error:
        raise type(error)(f"item {index}: {error.detail}") from None
    except UnicodeEncodeError:
        raise BadArgument(
            f"item {index}: jid or data has a lone surrogate, which UTF-8 lacks"
        ) from None
    except (TypeError, ValueError) as error:
        raise BadArgument(f"item {index} is not a Put: {error}") from error


def _kind(queue: str, klass: str) -> bytes:
    return pack((arguments.queue(queue), arguments.name("klass", klass))).data


def _tail(item: Put) -> Packed:
    pairs = options(*item[5:])
    delay = arguments.number("delay", item.delay)
    return pack((delay, len(pairs) // 2, *pairs))
