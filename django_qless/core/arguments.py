"""Checks of arguments before anything is sent: one wording, which names value and remedy.

The Lua core checks again, and more (that JSON is JSON, for example); what is refused here
never reaches the server.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable

from .exceptions import BadArgument, TooBig

MOST_ITEMS = 1_000
MOST_JOBS = 250
MOST_TAGS = 32
CALL_BYTES = 1024 * 1024
DATA_BYTES = 512 * 1024
TEXT_BYTES = 64 * 1024
NAME_BYTES = 255

# The endings of keys that stand beside a job's record.
RESERVED_ENDINGS = ("-history", "-dependencies", "-dependents")

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80

#: JSON as compact as it can be, never what RFC 8259 does not have.
to_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def shown(value: object) -> str:
    """Return a value as an error message names it: cut, so that it cannot fill a log."""
    return _repr.repr(value)


def size(text: str) -> int:
    """Return how many bytes a text has as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def name(label: str, value: object, most: int = NAME_BYTES) -> str:
    """Return a value that must be a text of 1 to `most` bytes."""
    if not isinstance(value, str):
        raise BadArgument(f"{label} must be a str, not {shown(value)}")
    if not value:
        raise BadArgument(f"{label} must not be empty")
    if len(value) * 4 > most and size(value) > most:
        raise BadArgument(f"{label} has more than {most:,} bytes: {shown(value)}")
    return value


def known(label: str, value: object) -> str:
    """Return a value that names something which may exist.

    Other clients of the same server are less strict with what they make, and it must be
    possible to look at it and to clear it away.
    """
    return name(label, value, TEXT_BYTES)


def jid(value: object) -> str:
    """Return a value that must be the id of a job to be made."""
    text = name("jid", value)
    if "-" in text and text.endswith(RESERVED_ENDINGS):
        raise BadArgument(
            f"jid must not end in {', '.join(RESERVED_ENDINGS)}: {shown(text)}"
        )
    return text


def queue(value: object) -> str:
    """Return a value that must be the name of a queue to put into, or to take from."""
    text = name("queue", value)
    if "*" in text or "?" in text:
        raise BadArgument(
            f"queue must name one queue, without * and ?, not {shown(text)}"
        )
    return text


def text(label: str, value: object, *, most: int = TEXT_BYTES) -> str:
    """Return a value that must be a text of limited length; it may be empty."""
    if not isinstance(value, str):
        raise BadArgument(f"{label} must be a str, not {shown(value)}")
    if len(value) * 4 > most and size(value) > most:
        raise TooBig(f"{label} has {size(value):,} bytes, at most {most:,} are allowed")
    return value


def data(value: object, label: str = "data") -> str:
    """Return a value that must be a job's data: JSON text of at most 512 KiB."""
    if not isinstance(value, str):
        raise BadArgument(
            f"{label} must be JSON text, not {shown(value)}: use json.dumps"
        )
    if not value:
        raise BadArgument(f'{label} must be JSON text, not "": "null" says nothing')
    return text(label, value, most=DATA_BYTES)


def json_object(label: str, value: object) -> str:
    """Return a value that must be a JSON object's text of at most 64 KiB."""
    if not isinstance(value, str) or not value.startswith("{"):
        raise BadArgument(
            f"{label} must be the JSON text of an object, not {shown(value)}"
        )
    return text(label, value)


def number(label: str, value: object) -> int | float:
    """Return a value that must be a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadArgument(f"{label} must be a number, not {shown(value)}")
    if not is_finite(value):
        raise BadArgument(f"{label} must be finite, not {shown(value)}")
    return value


def is_finite(value: float) -> bool:
    """Return whether a number is one that a float can hold, too."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def timeout(value: object) -> float | None:
    """Return a value that must be a number of seconds, or None for no limit."""
    return None if value is None else number("timeout", value)


def whole(label: str, value: object, least: int | None = None) -> int:
    """Return a value that must be a whole number, and not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadArgument(f"{label} must be a whole number, not {shown(value)}")
    if least is not None and value < least:
        raise BadArgument(f"{label} must be at least {least}, not {shown(value)}")
    if abs(value) > 1 << 53:
        raise BadArgument(f"{label} must be within ±2**53, not {shown(value)}")
    return value


def all_known(
    label: str, values: object, *, least: int = 0, most: int = MOST_ITEMS
) -> list[str]:
    """Return values that name things which may exist: enough, and not too many."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise BadArgument(f"{label} must be a list of str, not {shown(values)}")
    found = [known(label, value) for value in values]
    if len(found) < least:
        raise BadArgument(f"{label} must have at least one element")
    if len(found) > most:
        raise TooBig(f"{len(found):,} {label} given, at most {most:,} are allowed")
    return found


def one_or_more(label: str, values: object, *, most: int = MOST_ITEMS) -> list[str]:
    """Return one value, or several, that name things which may exist."""
    given = [values] if isinstance(values, str) else values
    return all_known(label, given, least=1, most=most)


def tags(values: object) -> list[str]:
    """Return values that must be tags to be given, at most 32 of at most 255 bytes."""
    found = all_known("tags", values, most=MOST_TAGS)
    return [name("tags", tag) for tag in found]


def part(offset: object, count: object) -> tuple[int, int]:
    """Return where a part of a list begins, and how long it is at most."""
    return whole("offset", offset, 0), min(whole("count", count, 0), MOST_ITEMS)


def decimal(value: int | float) -> str:
    """Return a number as decimal text that loses nothing."""
    if isinstance(value, int):
        return int.__repr__(value)
    return float.__repr__(number("number", value))
