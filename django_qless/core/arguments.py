"""Checks of arguments before anything is sent, with messages that name the remedy.

The Lua core checks again, and more (that JSON is JSON, for example).
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .exceptions import BadArgument, TooBig

if TYPE_CHECKING:
    from .protocol import Argument

MOST_ITEMS = 1_000
MOST_JOBS = 250
MOST_TAGS = 32
CALL_BYTES = 1024 * 1024
DATA_BYTES = 512 * 1024
TEXT_BYTES = 64 * 1024
NAME_BYTES = 255

# The endings of a job's other keys, beside its record.
RESERVED_ENDINGS = ("-history", "-dependencies", "-dependents")

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80

#: JSON in its most compact form, strictly as in RFC 8259.
to_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def quoted(value: object) -> str:
    """Return the representation of a value, shortened for messages."""
    return _repr.repr(value)


def size(text: str) -> int:
    """Return the number of bytes of a text as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def name(label: str, value: object, most: int = NAME_BYTES) -> str:
    """Return a value that must be a text of 1 to `most` bytes."""
    if not isinstance(value, str):
        raise BadArgument(f"{label} must be a str, not {quoted(value)}")
    if not value:
        raise BadArgument(f"{label} must not be empty")
    if len(value) * 4 > most and size(value) > most:
        raise BadArgument(f"{label} has more than {most:,} bytes: {quoted(value)}")
    return value


def existing(label: str, value: object) -> str:
    """Return a value that may be the name of something that exists.

    Other clients of the same server are less strict with the names they give, and it must
    be possible to look at such things and to remove them.
    """
    return name(label, value, TEXT_BYTES)


def jid(value: object) -> str:
    """Return a value that must be the id of a job to be made."""
    text = name("jid", value)
    if "-" in text and text.endswith(RESERVED_ENDINGS):
        raise BadArgument(
            f"jid must not end in {', '.join(RESERVED_ENDINGS)}: {quoted(text)}"
        )
    return text


def queue(value: object) -> str:
    """Return a value that must name one queue, to put into or to take from."""
    text = name("queue", value)
    if "*" in text or "?" in text:
        raise BadArgument(
            f"queue must name one queue, without * and ?, not {quoted(text)}"
        )
    return text


def text(label: str, value: object, *, most: int = TEXT_BYTES) -> str:
    """Return a value that must be a text of limited length; it may be empty."""
    if not isinstance(value, str):
        raise BadArgument(f"{label} must be a str, not {quoted(value)}")
    if len(value) * 4 > most and size(value) > most:
        raise TooBig(f"{label} has {size(value):,} bytes, at most {most:,} are allowed")
    return value


def data(value: object, label: str = "data") -> str:
    """Return a value that must be a job's data: JSON text of at most 512 KiB."""
    if not isinstance(value, str):
        raise BadArgument(
            f"{label} must be JSON text, not {quoted(value)}: use json.dumps"
        )
    if not value:
        raise BadArgument(f'{label} must be JSON text, not "": use "null" for no value')
    return text(label, value, most=DATA_BYTES)


def json_object(label: str, value: object) -> str:
    """Return a value that must be a JSON object's text of at most 64 KiB."""
    if not isinstance(value, str) or not value.startswith("{"):
        raise BadArgument(
            f"{label} must be the JSON text of an object, not {quoted(value)}"
        )
    return text(label, value)


def number(label: str, value: object) -> int | float:
    """Return a value that must be a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadArgument(f"{label} must be a number, not {quoted(value)}")
    if not is_finite(value):
        raise BadArgument(f"{label} must be finite, not {quoted(value)}")
    return value


def is_finite(value: float) -> bool:
    """Return whether a number is finite as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def timeout(value: object) -> float | None:
    """Return a value that must be a number of seconds, or None for no limit."""
    return None if value is None else number("timeout", value)


def integer(label: str, value: object, least: int | None = None) -> int:
    """Return a value that must be a whole number, and not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadArgument(f"{label} must be a whole number, not {quoted(value)}")
    if least is not None and value < least:
        raise BadArgument(f"{label} must be at least {least}, not {quoted(value)}")
    if abs(value) > 1 << 53:
        raise BadArgument(f"{label} must be within ±2**53, not {quoted(value)}")
    return value


def jobs_at_once(value: object) -> int:
    """Return a value that must be a number of jobs; 0 stands for any number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadArgument(
            "max_concurrency must be a whole number of jobs, or 0 for any number, not "
            f"{quoted(value)}"
        )
    return value


def existing_names(
    label: str, values: object, *, least: int = 0, most: int = MOST_ITEMS
) -> tuple[str, ...]:
    """Return values that may be names of existing things, within limits of number."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise BadArgument(f"{label} must be a list of str, not {quoted(values)}")
    found = tuple(existing(label, value) for value in values)
    if len(found) < least:
        raise BadArgument(f"{label} must have at least one element")
    if len(found) > most:
        raise TooBig(f"{len(found):,} {label} given, at most {most:,} are allowed")
    return found


def one_or_many(
    label: str, values: object, *, most: int = MOST_ITEMS
) -> tuple[str, ...]:
    """Return one or several names of things that may exist, as a tuple."""
    given = [values] if isinstance(values, str) else values
    return existing_names(label, given, least=1, most=most)


def tags(values: object) -> list[str]:
    """Return values that must be tags: at most 32 of at most 255 bytes."""
    found = existing_names("tags", values, most=MOST_TAGS)
    return [name("tags", tag) for tag in found]


def tags_json(values: object) -> str:
    """Return tags as a JSON list."""
    return to_json(tags(values))


def names_json(label: str, values: object) -> str:
    """Return names of things that may exist as a JSON list."""
    return to_json(existing_names(label, values))


def one_of(label: str, value: object, known: Sequence[str]) -> str:
    """Return a value that must be one of a few texts."""
    if not isinstance(value, str) or value not in known:
        raise BadArgument(
            f"{label} must be one of {', '.join(known)}, not {quoted(value)}"
        )
    return value


def not_negative(label: str, value: object) -> int | float:
    """Return a value that must be a finite number, and not below 0."""
    if number(label, value) < 0:
        raise BadArgument(f"{label} must not be below 0, as {value} is")
    return number(label, value)


def pairs(
    checks: Mapping[str, Callable[[Any], Argument]], given: Mapping[str, object]
) -> list[Argument]:
    """Return the checked options that are not None, as a flat list."""
    found: list[Argument] = []
    for name, value in given.items():
        if value is not None:
            found += name, checks[name](value)
    return found


def page(offset: object, count: object) -> tuple[int, int]:
    """Return the offset of a page of a list, and its length."""
    return integer("offset", offset, 0), min(integer("count", count, 0), MOST_ITEMS)


def decimal_text(value: int | float) -> str:
    """Return a number as decimal text, without loss."""
    if isinstance(value, int):
        return int.__repr__(value)
    return float.__repr__(number("number", value))
