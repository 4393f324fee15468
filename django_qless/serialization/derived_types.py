"""Values of types derived from those that travel: whether they are the same without it.

A value travels as the plain type that it derives from only if what arrives is equal to it.
Needs no Django.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

EXACT = frozenset({str, int, float, bool, type(None), list, tuple, dict})

# As json writes them, whatever a derived type makes of them.
_SCALARS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)


class NotSerializable(Exception):
    """A value cannot be serialized: the reason, and its path in the whole."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


def check_same(value: Any, arrives: Any) -> None:
    """Raise NotSerializable, with the remedy, if a value would not arrive as the same."""
    if isinstance(value, Enum):
        remedy = "pass its .value"
    elif hasattr(value, "getlist") and hasattr(value, "lists"):
        remedy = "pass its .dict(), or dict(value.lists()) for all values of each key"
    elif _is_equal(value, arrives):
        return
    elif hasattr(value, "_asdict"):
        remedy = "pass its ._asdict(), or list(value)"
    else:
        kind = type_name(arrives)
        remedy = (
            f"it would arrive as a {kind} that is not equal to it: make it a {kind}"
        )
    raise cannot_travel(value, remedy)


def check_plain(value: Any) -> None:
    """Raise NotSerializable for what JSON would write as something else.

    What JSON cannot write at all is left to the one who writes it.
    """
    kind = type(value)
    if isinstance(value, Mapping):
        check_keys(value)
        if kind is not dict:
            check_same(value, dict(value.items()))
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        if kind not in EXACT:
            check_same(value, list(value))
        items = enumerate(value)
    else:
        if kind not in EXACT:
            plain_scalar(value)
        return
    for key, each in items:
        try:
            check_plain(each)
        except NotSerializable as error:
            error.place = f"[{key!r}]{error.place}"
            raise


def check_keys(value: Mapping[Any, Any]) -> None:
    """Raise NotSerializable for a key that is no text, or more than a text."""
    for key in value:
        if type(key) is str:
            continue
        if not isinstance(key, str):
            raise NotSerializable(
                f"the key {key!r} is of type {type_name(key)}, and JSON's keys are "
                "strings: convert it, or pass a list of pairs"
            )
        check_same(key, str.__str__(key))


def plain_scalar(value: Any) -> Any:
    """Return the text or number that arrives; what is neither as it is.

    Raises NotSerializable if it would not be the same.
    """
    for kind, plain in _SCALARS:
        if isinstance(value, kind):
            check_same(value, arrives := plain(value))
            return arrives
    if isinstance(value, Enum):
        check_same(value, None)
    return value


def name_text(value: Any) -> str:
    """Return a name or a key as text: an Enum member is its value."""
    return str(value.value if isinstance(value, Enum) else value)


def cannot_travel(value: object, remedy: str) -> NotSerializable:
    """Return the error that names the type of a value, and the remedy."""
    return NotSerializable(
        f"a value of type {type_name(value)} cannot travel as JSON: {remedy}"
    )


def type_name(value: object) -> str:
    """Return the name of a value's type, with its module unless it is built in."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_equal(value: Any, arrives: Any) -> bool:
    try:
        if value == arrives:
            return True
        # In the hour that a time zone has twice, equal times of different zones are not.
        return isinstance(arrives, datetime) and value - arrives == timedelta()
    except Exception:  # noqa: BLE001  whatever such a type raises
        return False
