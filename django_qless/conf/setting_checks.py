"""The checks of the setting QLESS: one function for each kind of value.

Those of how to connect are in `connection_checks.py`.

A check yields the problems of a value; their text follows the name of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from django_qless.core.arguments import is_finite
from django_qless.core.options import (
    JOBS,
    OF_A_QUEUE,
    OPTIONS,
    RATES,
    TEXTS_OF_A_QUEUE,
    is_of,
    known,
)
from django_qless.core.rates import RATE, is_rate
from django_qless.serialization.sealing import new_cipher, zstd

#: The options of a queue in QUEUES: those of the core, and the limits of its jobs.
CORE_QUEUE_OPTIONS = {
    option.name.replace("-", "_"): option.meaning for option in OF_A_QUEUE
}
QUEUE_LIMITS = {
    "timeout": "seconds until JobTimeout is raised in one of its jobs",
    "hard_timeout": "seconds until the process of one of its jobs is killed",
}
DETACHED_LIMIT = "detached_limit"
QUEUE_OPTIONS = {
    **CORE_QUEUE_OPTIONS,
    **QUEUE_LIMITS,
    DETACHED_LIMIT: "how many of its detached jobs may run at once on a host",
}


class Problem(NamedTuple):
    """Something wrong: the text, the remedy, and the number of the system check."""

    text: str
    hint: str = ""
    number: str = ""


#: Yields the problems of a value; their text follows the key.
Check = Callable[[Any], Iterator[Problem]]


def must_be(
    what: str, is_valid: Callable[[Any], bool], *, optional: bool = False
) -> Check:
    """Return a check that a value is one thing; None passes if optional."""

    def check(value: Any) -> Iterator[Problem]:
        if not (optional and value is None) and not is_valid(value):
            yield Problem(f" must be {what}, not {value!r}.")

    return check


def is_number(value: Any) -> bool:
    """Return whether this is a finite number; bool is none."""
    return type(value) in (int, float) and is_finite(value)


def text(most: int, unit: str, size: Callable[[str], int]) -> Check:
    """Return the check of a text with such a size."""
    return must_be(
        f"a text of 1 to {most} {unit}",
        lambda value: isinstance(value, str) and 0 < size(value) <= most,
    )


def queues(value: Any) -> Iterator[Problem]:
    """The options of queues, by name."""
    if not isinstance(value, Mapping):
        yield Problem(" must be a dict of queues.")
        return
    for queue, options in value.items():
        if not isinstance(queue, str) or not queue or "*" in queue or "?" in queue:
            yield Problem(
                f": {queue!r} cannot name a queue.",
                "A queue's name has at least one character, and neither * nor ?.",
            )
        elif not isinstance(options, Mapping):
            yield Problem(f": {queue!r} must have a dict.", listed(QUEUE_OPTIONS))
        else:
            yield from _queue(queue, options)


def _queue(queue: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in options.items():
        if name not in QUEUE_OPTIONS:
            yield Problem(
                f": queue {queue!r} has no option {name!r}.",
                near_miss(name, QUEUE_OPTIONS) or listed(QUEUE_OPTIONS),
            )
        elif name.replace("_", "-") in TEXTS_OF_A_QUEUE:
            yield from _other_queue(name, queue, value)
        elif wanted := _wanted(f"{queue}-{name.replace('_', '-')}", value, least=0):
            yield Problem(
                f": {name} of queue {queue!r} must be {wanted}, not {value!r}.",
                f"It is {QUEUE_OPTIONS[name]}.",
            )
        elif name == DETACHED_LIMIT and (value != int(value) or value < 1):
            yield Problem(
                f": {name} of queue {queue!r} must be a whole number from 1.",
                "Serve the queue on other hosts only to have none of its jobs here.",
            )
        elif name in QUEUE_LIMITS and value == 0:
            yield Problem(
                f": {name} of queue {queue!r} must be above 0.",
                "Leave it away for no limit.",
            )
    soft, hard = (options.get(name, 0) for name in QUEUE_LIMITS)
    if is_number(soft) and is_number(hard) and soft > hard > 0:
        yield Problem(
            f": timeout of queue {queue!r} exceeds its hard_timeout.",
            "A job is killed at the hard_timeout, so let the timeout come before it.",
        )


def _wanted(option: str, value: Any, least: float | None = None) -> str:
    """Return what the value of an option of the core must be, or "" if it is that."""
    if is_of(option, RATES):
        return (
            "" if value == "0" or is_rate(value) else f'{RATE}, or "0" for any number'
        )
    if is_of(option, JOBS):
        is_whole = is_number(value) and value >= 0 and value == int(value)
        return "" if is_whole else "a whole number of jobs, or 0 for any number"
    if is_of(option, ["weight"]):
        least = 0
    if not is_number(value) or (least is not None and value < least):
        return "a number" if least is None else f"a number from {least}"
    return ""


def _other_queue(name: str, queue: str, value: Any) -> Iterator[Problem]:
    if not _is_queue(value):
        yield Problem(
            f": {name} of queue {queue!r} must be the name of a queue, not {value!r}.",
            f"It is {QUEUE_OPTIONS[name]}.",
        )
    elif value == queue:
        yield Problem(
            f": {name} of queue {queue!r} must be another queue.",
            "Leave it away to keep failed jobs where they are.",
        )


def _is_queue(value: Any) -> bool:
    """Return whether this can name a queue."""
    named = isinstance(value, str) and 0 < len(value.encode("utf-8", "replace")) <= 255
    return named and "*" not in value and "?" not in value


def config(value: Any) -> Iterator[Problem]:
    """Options of the Lua core."""
    if not isinstance(value, Mapping):
        yield Problem(" must be a dict.")
        return
    names = [option.name for option in OPTIONS]
    for name, each in value.items():
        option = known(str(name))
        if option is None:
            near = near_miss(str(name).replace("_", "-"), names)
            yield Problem(f": there is no option {name!r}.", near or listed(names))
        elif (
            name != "application"
            and not is_of(str(name), [*TEXTS_OF_A_QUEUE])
            and (wanted := _wanted(str(name), each))
        ):
            yield Problem(
                f": {name} must be {wanted}, not {each!r}.", f"It is {option.meaning}."
            )


def dotted_names(value: Any) -> Iterator[Problem]:
    """A list of dotted names."""
    if not isinstance(value, (list, tuple)):
        yield Problem(" must be a list.")
        return
    for name in value:
        yield from _dotted(name)


def dotted_name(value: Any) -> Iterator[Problem]:
    """A dotted name, or None."""
    if value is not None:
        yield from _dotted(value)


def _dotted(name: Any) -> Iterator[Problem]:
    dotted = isinstance(name, str) and all(
        part.isidentifier() for part in name.split(".")
    )
    if not dotted or "." not in name:
        yield Problem(f": {name!r} is no dotted name.")


def encryption_keys(value: Any) -> Iterator[Problem]:
    """A list of Fernet keys. No message shows one."""
    if not isinstance(value, (list, tuple)):
        yield Problem(" must be a list of keys.")
        return
    for number, each in enumerate(value, 1):
        try:
            if not isinstance(each, str):
                raise ValueError("it is no text")
            new_cipher([each])
        except ImportError as error:
            yield Problem(f": {error}", "Install the extra `encryption`.")
            return
        except ValueError:
            yield Problem(
                f": key {number} must be 32 bytes in URL-safe base64, as text."
            )


def compression(value: Any) -> Iterator[Problem]:
    """A method that this Python has, or None."""
    if value not in (None, "zlib", "zstd"):
        yield Problem(f' must be "zlib" or "zstd", not {value!r}.')
    elif value == "zstd":
        try:
            zstd()
        except ImportError as error:
            yield Problem(f": {error}", 'Install the extra `zstd`, or use "zlib".')


#: The check of a number of seconds, at most an hour.
within_an_hour = must_be(
    "a number of seconds from 0 to 3600",
    lambda value: is_number(value) and 0 <= value <= 3600,
)


def near_miss(name: object, names: Collection[str]) -> str:
    """Return a hint at the most similar of these names, "" without one."""
    near = get_close_matches(str(name), names, n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


def listed(names: Collection[str]) -> str:
    """Return a hint that lists these names."""
    return f"The options are {', '.join(names)}."
