"""Jobs to be put, their ids, and batches of them as bytes.

Later ids sort lower, as equal jobs are popped from the top.

Ten thousand jobs are put in a few hundred milliseconds, so an item is packed with one
formatting; the common part of items (queue, name, options) is checked and packed once.
"""

from __future__ import annotations

import os
import threading
import time
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from . import arguments, protocol
from .connection import pack
from .exceptions import BadArgument
from .protocol import Argument, Packed
from .request import Command

# Sixty-four characters in the order of their codes, so that text sorts as numbers do.
ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_OURS = bytes.maketrans(_BASE64, ALPHABET)

# The last microsecond of the epoch that fits.
_LATEST = (1 << 56) - 1
_DIGITS = {chr(character): value for value, character in enumerate(ALPHABET)}


class JidGenerator:
    """Draws ids of 20 characters: 56 bits of time, falling, then 64 random bits.

    Ids of one process fall strictly, whatever its threads and its clock do. The random
    half keeps those of different processes apart.
    """

    def __init__(self) -> None:
        self._last = 0
        self.separate()

    def separate(self) -> None:
        """Start again in a forked process, which would draw the ids of its parent.

        The new seed is made with the first id: many processes never draw one.
        """
        self._lock = threading.Lock()
        self._random: Callable[[int], int] = self._first

    def _first(self, bits: int) -> int:
        self._random = Random(os.urandom(32)).getrandbits
        return self._random(bits)

    def draw(self) -> str:
        """Return a new id."""
        with self._lock:
            now = time.time_ns() // 1000
            if now <= self._last:
                now = self._last + 1
            self._last = now
            number = (_LATEST - now) << 64 | self._random(64)
        text = b2a_base64(number.to_bytes(15, "big"), newline=False)
        return text.translate(_TO_OURS).decode("ascii")


_generator = JidGenerator()
os.register_at_fork(after_in_child=_generator.separate)

#: Return a new job id: 20 characters of 0-9 A-Z _ a-z ~.
new_jid = _generator.draw


def time_of(jid: str) -> float | None:
    """Return when a jid was drawn, in seconds of the epoch; None if foreign."""
    if len(jid) != 20 or not all(each in _DIGITS for each in jid):
        return None
    number = 0
    for each in jid:
        number = number << 6 | _DIGITS[each]
    return (_LATEST - (number >> 64)) / 1e6


# The longest jid and data whose bytes need not be counted.
_SHORT_JID = arguments.NAME_BYTES // 4
_SHORT_DATA = arguments.DATA_BYTES // 4


class Put(NamedTuple):
    """A job to be put.

    For None the core decides: a new job gets priority 0, 5 retries and no tags; an existing
    one keeps its own.
    """

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
    #: The job's fate when one of its dependencies fails or is cancelled: "" (or "block", it
    #: waits on), "cancel" (it is cancelled, too), "run" (it waits no longer).
    on_failure: str = ""
    #: A key that one job holds at a time; see `conflict` for others with the same key.
    unique: str | None = None
    #: How long the job holds the key: until it starts ("start"), until it has ended
    #: ("end"), or for so many seconds from the put, whatever becomes of the job.
    unique_until: str | int | float = "end"
    #: The outcome when another job holds the key: "keep" (the other stands for this one),
    #: "replace" (it starts again as this one, unless it runs: then this one waits for its
    #: end), "take" (there are both; the key is this one's).
    conflict: str = "keep"
    #: Seconds until the job is due; each put with the same key restarts them, until ten
    #: times as many have passed since the first.
    debounce: int | float | None = None
    #: Seconds after which the job must not start any more: then it fails as `expired`.
    expires: int | float | None = None
    #: When the job is ready, in seconds since the epoch, instead of a delay.
    at: int | float | None = None
    #: The time, in seconds since the epoch, from which `delay`, `debounce`, `expires` and
    #: seconds of `unique_until` count, instead of the put: that of a recurring job's tick.
    since: int | float | None = None
    #: The time, in seconds since the epoch, after which the job must not start any more.
    expires_at: int | float | None = None
    #: The id of the workflow that counts the job as one of its own.
    workflow: str | None = None
    #: The key for which the job counts under the limits of its type per key.
    limit_key: str | None = None
    #: The tenant for which it counts where tenants of a queue take turns.
    fair_by: str | None = None
    #: Those of the dependencies that are known to be complete: without a record they are not
    #: refused, and not waited for.
    met: Sequence[str] = ()
    #: The key as it is under former names of the job type. The job holds these, too, and another
    #: job that holds one of them stands for it.
    unique_aliases: Sequence[str] = ()
    #: Leave it out, in a batch, unless another job of the batch that is put depends on it.
    #: The next job of the batch is put by the same command.
    optional: bool = False


class PutMany(NamedTuple):
    """Result of putting many jobs: those that did not become new jobs."""

    #: Ids that were skipped because there was such a job (`absent`), or because no job of
    #: the batch needed them (`optional`).
    skipped: list[str]
    #: The given id -> the id of the job that stands for it (`unique`).
    duplicates: dict[str, str]


def _flag(value: object) -> str:
    return "1"


def _until(value: object) -> Argument:
    if isinstance(value, str):
        return arguments.one_of("unique_until", value, UNTIL)
    seconds = arguments.number("unique_until", value)
    if seconds <= 0:
        raise BadArgument(
            f"unique_until must be start, end or seconds above 0, not {seconds}"
        )
    return seconds


POLICIES = ("block", "cancel", "run")
UNTIL = ("start", "end")
CONFLICTS = ("keep", "replace", "take")

# Each option of a Put that travels by name, in this order, and its check.
_CHECKS: dict[str, Callable[[Any], Argument]] = {
    "priority": partial(arguments.number, "priority"),
    "retries": partial(arguments.integer, "retries", least=0),
    "tags": arguments.tags_json,
    "depends": partial(arguments.names_json, "depends"),
    "context": partial(arguments.json_object, "context"),
    "absent": _flag,
    "on_failure": partial(arguments.one_of, "on_failure", known=POLICIES),
    "unique": partial(arguments.name, "unique"),
    "unique_until": _until,
    "conflict": partial(arguments.one_of, "conflict", known=CONFLICTS),
    "debounce": partial(arguments.not_negative, "debounce"),
    "expires": partial(arguments.number, "expires"),
    "at": partial(arguments.number, "at"),
    "since": partial(arguments.number, "since"),
    "expires_at": partial(arguments.number, "expires_at"),
    "workflow": partial(arguments.name, "workflow"),
    "limit_key": partial(arguments.name, "limit_key"),
    "fair_by": partial(arguments.name, "fair_by"),
    "met": partial(arguments.names_json, "met"),
    "unique_aliases": partial(arguments.names_json, "unique_aliases"),
    "optional": _flag,
}
# How an option is called on the wire, where that is another name.
_WIRE = {"optional": "spare"}

_NAMES = tuple(_CHECKS)
_DEFAULTS = Put._field_defaults
# Options from here on are rare, and most often as they are by default.
_RARE = Put._fields.index("on_failure")
_RARE_NAMES = Put._fields[_RARE:]
_RARE_DEFAULTS = tuple(_DEFAULTS[name] for name in _RARE_NAMES)
_COMMON_NAMES = _NAMES[: -len(_RARE_NAMES)]


def options(item: Put) -> list[Argument]:
    """Return the checked options as the flat names and values that the core takes."""
    pairs = _pairs(item, _COMMON_NAMES)
    if item[_RARE:] != _RARE_DEFAULTS:
        pairs += rare_options(item)
    return pairs


def rare_options(item: Put) -> list[Argument]:
    """Return the options of a Put from `on_failure` on, as names and values."""
    if item.unique is None:
        if item.debounce is not None:
            raise BadArgument("debounce needs unique: the key of what is put again")
        # They speak of the key.
        item = item._replace(unique_until="end", conflict="keep")
    pairs = _pairs(item, _RARE_NAMES)
    if item.debounce is not None and item.delay:
        raise BadArgument(
            f"debounce says when the job is due: a delay of {item.delay} s cannot "
            "be given with it"
        )
    if item.at is not None and (item.delay or item.debounce is not None):
        raise BadArgument("at says when the job is due: no delay, no debounce then")
    if item.expires_at is not None and item.expires is not None:
        raise BadArgument("expires and expires_at exclude each other")
    return pairs


def _pairs(item: Put, names: Iterable[str]) -> list[Argument]:
    pairs: list[Argument] = []
    for name in names:
        value = getattr(item, name)
        if value != _DEFAULTS[name] and (value or name not in _NOT_EMPTY):
            pairs += _WIRE.get(name, name), _CHECKS[name](value)
    return pairs


# Options that are left out when they are empty.
_NOT_EMPTY = ("depends", "context", "absent", "met", "optional")


def batches(items: Iterable[Put]) -> Iterator[tuple[int, Packed]]:
    """Cut items into batches that one command may have, with their numbers of items.

    The order is kept. Raises BadArgument, which names the item, for the first bad one.
    """
    return protocol.batches(_inseparable(_packed(items)), arguments.MOST_ITEMS)


def _inseparable(
    pieces: Iterable[tuple[bool, int, bytes]],
) -> Iterator[tuple[int, int, bytes]]:
    """Yield optional items together with the item that they are for."""
    number, count, ahead = 1, 0, b""
    for optional, more, piece in pieces:
        if optional:
            number, count, ahead = number + 1, count + more, ahead + piece
        elif number == 1:
            yield 1, more, piece
        else:
            yield number, count + more, ahead + piece
            number, count, ahead = 1, 0, b""
    if ahead:
        yield number - 1, count, ahead


def _packed(items: Iterable[Put]) -> Iterator[tuple[bool, int, bytes]]:
    """Yield for each item if it is optional, and its arguments' number and bytes."""
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
                rest[-1],
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
    pairs = options(item)
    delay = arguments.number("delay", item.delay)
    return pack((delay, len(pairs) // 2, *pairs))


class PreparedPut:
    """Puts jobs that differ in their id and data only.

    `shape` has everything else; its jid and data are ignored. Saves a third of the client's
    time for a put.
    """

    __slots__ = ("_klass", "_queue", "_tail")

    def __init__(self, shape: Put) -> None:
        self._queue = pack((arguments.queue(shape.queue),))
        self._klass = pack((arguments.name("klass", shape.klass),))
        delay = arguments.number("delay", shape.delay)
        self._tail = pack((delay, *options(shape)))

    def call(
        self, worker: str, jid: str, data: str, *more: Argument
    ) -> Command[str | None]:
        """Return the command that puts one job.

        `more` are names and values of options that the shape leaves out. They, `jid` and
        `data` are checked by the core.
        """
        args = (worker, self._queue, jid, self._klass, data, self._tail, *more)
        return Command("put", args, "write")
