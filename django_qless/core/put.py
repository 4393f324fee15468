"""Jobs to be put, and batches of them as bytes.

Ten thousand jobs are put in a few hundred milliseconds, so an item is packed with one
formatting; what items have in common (queue, name, options) is checked and packed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from . import arguments, protocol
from .calls import Call
from .exceptions import BadArgument
from .protocol import Argument, Packed, pack

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
    #: What becomes of the job when one of its dependencies fails or is cancelled: "" (or
    #: "block", it waits on), "cancel" (it is cancelled, too), "run" (it waits no longer).
    on_failure: str = ""
    #: A key that one job holds at a time: what is put with it meanwhile meets that job.
    unique: str | None = None
    #: How long the job holds the key: until it starts ("start"), until it has ended
    #: ("end"), or for so many seconds from the put, whatever becomes of the job.
    unique_until: str | int | float = "end"
    #: What becomes of this put when another job holds the key: "keep" (the other stands
    #: for this one), "replace" (it begins anew as this one, unless it runs: then this one
    #: waits for its end), "refuse" (DuplicateJob), "take" (both are; the key is this one's).
    conflict: str = "keep"
    #: Seconds until the job is due; each put with the same key starts them anew.
    debounce: int | float | None = None
    #: Seconds from the first of these puts after which the job is due in any case.
    debounce_max: int | float | None = None
    #: Seconds after which the job must not start any more: then it fails as `expired`.
    expires: int | float | None = None
    #: When the job is ready, in seconds since the epoch, instead of a delay.
    at: int | float | None = None
    #: The time, in seconds since the epoch, after which the job must not start any more.
    expires_at: int | float | None = None
    #: The id of the workflow that counts the job as one of its own.
    workflow: str | None = None
    #: Leave it out, in a batch, unless another job of the batch that is put depends on it.
    #: What comes next in the batch is put by the same call.
    spare: bool = False


class PutMany(NamedTuple):
    """What became of those of many puts that did not simply become jobs."""

    #: Ids that were left alone because there was such a job (`absent`), or because no job
    #: of the batch needed them (`spare`).
    left: list[str]
    #: The given id -> the id of the job that stands for it (`unique`).
    instead: dict[str, str]


# What the options from on_failure on are when nobody speaks of them.
_RARE = len(Put._fields) - len(Put._fields[Put._fields.index("on_failure") :])
_USUAL = tuple(Put._field_defaults[name] for name in Put._fields[_RARE:])


def options(item: Put) -> list[Argument]:
    """Return the checked options as the flat names and values that the core takes."""
    priority, retries, tags, depends, context, absent, open_ = item[5:_RARE]
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
    if open_:
        pairs += "open", "1"
    if item[_RARE:] != _USUAL:
        pairs += rare_options(item)
    return pairs


def batches(items: Iterable[Put]) -> Iterator[tuple[int, Packed]]:
    """Cut items into batches that one call may have: how many items, and their bytes.

    The order is kept. Raises BadArgument, which names the item, for the first bad one.
    """
    return protocol.batches_of(_whole(_packed(items)), arguments.MOST_ITEMS)


def _whole(
    pieces: Iterable[tuple[bool, int, bytes]],
) -> Iterator[tuple[int, int, bytes]]:
    """Yield what one call must have together: spare items and the one they are for."""
    number, count, ahead = 1, 0, b""
    for spare, more, piece in pieces:
        if spare:
            number, count, ahead = number + 1, count + more, ahead + piece
        elif number == 1:
            yield 1, more, piece
        else:
            yield number, count + more, ahead + piece
            number, count, ahead = 1, 0, b""
    if ahead:
        yield number - 1, count, ahead


def _packed(items: Iterable[Put]) -> Iterator[tuple[bool, int, bytes]]:
    """Yield whether each item is spare, how many arguments it is, and their bytes."""
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


POLICIES = ("", "block", "cancel", "run")
UNTIL = ("start", "end")
CONFLICTS = ("keep", "replace", "refuse", "take")


def rare_options(item: Put) -> list[Argument]:
    """Return the options of a Put from `on_failure` on, as names and values."""
    pairs: list[Argument] = []
    if item.on_failure != "":
        pairs += "on_failure", _one_of("on_failure", item.on_failure, POLICIES)
    if item.unique is not None:
        pairs += _unique(item)
    elif item.debounce is not None or item.debounce_max is not None:
        raise BadArgument("debounce needs unique: the key of what is put again")
    if item.expires is not None:
        pairs += "expires", arguments.number("expires", item.expires)
    if item.at is not None:
        pairs += "at", arguments.number("at", item.at)
        if item.delay or item.debounce is not None:
            raise BadArgument("at says when the job is due: no delay, no debounce then")
    if item.expires_at is not None:
        pairs += "expires_at", arguments.number("expires_at", item.expires_at)
        if item.expires is not None:
            raise BadArgument("expires and expires_at exclude each other")
    if item.workflow is not None:
        pairs += "workflow", arguments.name("workflow", item.workflow)
    if item.spare:
        pairs += "spare", "1"
    return pairs


def _unique(item: Put) -> list[Argument]:
    pairs: list[Argument] = ["unique", arguments.name("unique", item.unique)]
    if item.unique_until != "end":
        pairs += "unique_until", _until(item.unique_until)
    if item.conflict != "keep":
        pairs += "conflict", _one_of("conflict", item.conflict, CONFLICTS)
    if item.debounce is not None:
        pairs += "debounce", _seconds("debounce", item.debounce)
        if item.delay:
            raise BadArgument(
                f"debounce says when the job is due: a delay of {item.delay} s cannot "
                "be given with it"
            )
    if item.debounce_max is not None:
        if item.debounce is None:
            raise BadArgument("debounce_max needs debounce, which it limits")
        pairs += "debounce_max", _seconds("debounce_max", item.debounce_max)
    return pairs


def _until(value: object) -> Argument:
    if isinstance(value, str):
        return _one_of("unique_until", value, UNTIL)
    seconds = arguments.number("unique_until", value)
    if seconds <= 0:
        raise BadArgument(
            f"unique_until must be start, end or seconds above 0, not {seconds}"
        )
    return seconds


def _seconds(label: str, value: object) -> int | float:
    seconds = arguments.number(label, value)
    if seconds < 0:
        raise BadArgument(f"{label} must not be below 0, as {seconds} is")
    return seconds


def _one_of(label: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        names = ", ".join(name for name in known if name)
        raise BadArgument(
            f"{label} must be one of {names}, not {arguments.shown(value)}"
        )
    return value


class PreparedPut:
    """Puts jobs that differ in their id and data only.

    `shape` says everything else; its jid and data are not looked at. Saves a third of
    the client's time for a put.
    """

    __slots__ = ("_klass", "_queue", "_tail")

    def __init__(self, shape: Put) -> None:
        self._queue = pack((arguments.queue(shape.queue),))
        self._klass = pack((arguments.name("klass", shape.klass),))
        self._tail: Packed = pack(
            (
                arguments.number("delay", shape.delay),
                *options(shape),
            )
        )

    def call(
        self, worker: str, jid: str, data: str, *more: Argument
    ) -> Call[str | None]:
        """Return the call that puts one job.

        `more` are names and values of options that the shape leaves out. They, `jid` and
        `data` are checked by the core.
        """
        args = (worker, self._queue, jid, self._klass, data, self._tail, *more)
        return Call("put", args, "write")
