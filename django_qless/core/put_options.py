"""The options of a put that few jobs have, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import arguments
from .exceptions import BadArgument
from .wire import Argument

if TYPE_CHECKING:
    from .put import Put

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
