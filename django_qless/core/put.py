"""Jobs to be put, their ids, and the rows that the core takes.

Later ids sort lower, as equal jobs are popped from the top.

A command that puts jobs has their shape (what they have in common, a JSON object of texts),
the names of the columns that differ, and the values of each job: a row.
"""

from __future__ import annotations

import json
import os
import threading
import time
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from random import Random
from typing import Any, NamedTuple

from . import arguments
from .exceptions import BadArgument
from .protocol import Argument

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
    #: ("end"), or for a number of seconds from the put, even if it ends before.
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

# Each option of a Put, and its check.
_CHECKS: dict[str, Callable[[Any], Argument]] = {
    "delay": partial(arguments.number, "delay"),
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

_DEFAULTS = Put._field_defaults
# Options that are left out when they are empty.
_NOT_EMPTY = ("depends", "context", "absent", "met", "optional")
# Options that mostly differ from job to job. The others are part of a shape.
_OWN = (
    *("depends", "context", "unique", "at", "since", "expires_at"),
    *("limit_key", "fair_by", "met", "unique_aliases"),
)
_OWN_AT = tuple(Put._fields.index(name) for name in _OWN)
_OWN_DEFAULTS = tuple(_DEFAULTS[name] for name in _OWN)
_own = itemgetter(*_OWN_AT)
_COMMON = tuple(name for name in _CHECKS if name not in _OWN)
_common = itemgetter(
    *(Put._fields.index(name) for name in ("queue", "klass", *_COMMON))
)

#: The shape, the columns, then the values of each row.
Rows = tuple[Argument, ...]


def row(item: Put) -> Rows:
    """Return the one row of a job. Raises BadArgument."""
    shape, own = _parts(item)
    jid, data = arguments.jid(item.jid), arguments.data(item.data)
    columns = " ".join(("jid", "data", *own))
    return (_shape_text(tuple(shape.items())), columns, jid, data, *own.values())


def batches(items: Iterable[Put]) -> Iterator[tuple[int, Rows]]:
    """Cut items into batches that one command may have, with their numbers of items.

    The order is kept. Raises BadArgument, which names the item, for the first bad one.
    """
    batch: list[_Part] = []
    size = 0
    for some, more in _inseparable(_checked(items)):
        full = len(batch) + len(some) > arguments.MOST_ITEMS
        if batch and (full or size + more > arguments.CALL_BYTES - _ROOM):
            yield len(batch), _rows(batch)
            batch, size = [], 0
        batch += some
        size += more
    if batch:
        yield len(batch), _rows(batch)


#: Jid, data, what jobs like it have in common, and what differs.
_Part = tuple[str, str, dict[str, str], dict[str, str]]

# Bytes that a batch leaves to the rest of its command.
_ROOM = 96 * 1024


def _inseparable(parts: Iterable[_Part]) -> Iterator[tuple[list[_Part], int]]:
    """Yield items with their bytes; optional ones with the item that they are for."""
    some: list[_Part] = []
    size = 0
    for part in parts:
        jid, data, shape, own = part
        some.append(part)
        size += _bytes(jid) + _bytes(data)
        if own:
            size += sum(map(_bytes, own.values()))
        if "spare" not in shape:
            yield some, size
            some, size = [], 0
    if some:
        yield some, size


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _checked(items: Iterable[Put]) -> Iterator[_Part]:
    index = 0
    try:
        for index, item in enumerate(items):  # noqa: B007 (for the message)
            jid, data = item.jid, item.data
            if type(jid) is not str or not 0 < len(jid) <= _SHORT_JID or "-" in jid:
                jid = arguments.jid(jid)
            if type(data) is not str or not 0 < len(data) <= _SHORT_DATA:
                data = arguments.data(data)
            _bytes(jid + data)
            yield (jid, data, *_parts(item))
    except BadArgument as error:
        raise type(error)(f"item {index}: {error.detail}") from None
    except UnicodeEncodeError:
        raise BadArgument(
            f"item {index}: jid or data has a lone surrogate, which UTF-8 lacks"
        ) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise BadArgument(f"item {index} is not a Put: {error}") from error


def _rows(parts: Sequence[_Part]) -> Rows:
    shapes = {id(shape): shape for _, _, shape, _ in parts}
    shared = dict(parts[0][2])
    for shape in shapes.values():
        shared = {
            name: shared[name] for name in shared if shape.get(name) == shared[name]
        }
    names = dict.fromkeys(
        name for shape in shapes.values() for name in shape if name not in shared
    )
    own_names = dict.fromkeys(name for *_, own in parts for name in own)
    columns = " ".join(("jid", "data", *names, *own_names))
    values: list[Argument] = [_shape_text(tuple(shared.items())), columns]
    for jid, data, shape, own in parts:
        values += jid, data
        values += [shape.get(name, "") for name in names]
        values += [own.get(name, "") for name in own_names]
    return tuple(values)


@lru_cache(maxsize=1000)
def _shape_text(pairs: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(pairs), ensure_ascii=False, separators=(",", ":"))


def _parts(item: Put) -> tuple[dict[str, str], dict[str, str]]:
    """Return the checked texts of a job: its shape, and what is its own."""
    given = _own(item)
    own = {}
    if given != _OWN_DEFAULTS:
        own = _texts(zip(_OWN, given, strict=True))
        if item.at is not None and (item.delay or item.debounce is not None):
            raise BadArgument("at says when the job is due: no delay, no debounce then")
        if item.expires_at is not None and item.expires is not None:
            raise BadArgument("expires and expires_at exclude each other")
    # What speaks of the key says nothing without one.
    kind = _common(item if "unique" in own else _without_key(item))
    try:
        return _shape(kind), own
    except TypeError:  # A list among them: not hashable.
        return _shape.__wrapped__(kind), own


def _without_key(item: Put) -> Put:
    if item.debounce is not None:
        raise BadArgument("debounce needs unique: the key of what is put again")
    if item.unique_until == "end" and item.conflict == "keep":
        return item
    return item._replace(unique_until="end", conflict="keep")


@lru_cache(maxsize=1000)
def _shape(kind: tuple[Any, ...]) -> dict[str, str]:
    queue, klass, *options = kind
    texts = {"queue": arguments.queue(queue), "klass": arguments.name("klass", klass)}
    texts |= _texts(zip(_COMMON, options, strict=True))
    if "debounce" in texts and "delay" in texts:
        raise BadArgument(
            f"debounce says when the job is due: a delay of {texts['delay']} s cannot "
            "be given with it"
        )
    return texts


def _texts(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the options that are not as they are by default, checked, as texts."""
    texts = {}
    for name, value in pairs:
        if value != _DEFAULTS[name] and (value or name not in _NOT_EMPTY):
            text = _CHECKS[name](value)
            if isinstance(text, (int, float)):
                text = arguments.decimal_text(text)
            texts[_WIRE.get(name, name)] = str(text)
    return texts
