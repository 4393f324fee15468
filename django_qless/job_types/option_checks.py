"""The checks of option values, one by one; `option_conflicts.py` has them together.

A check takes the user's value and returns the value that `Options` holds, or raises
Refused with the words for "must be …". Needs no Django.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from django_qless.core.arguments import is_finite
from django_qless.core.rates import RATE, is_rate
from django_qless.exceptions import Fail, InvalidOption, JobLost, Retry, ShuttingDown
from django_qless.job_types.backoff import Exponential, exponential
from django_qless.serialization.derived_types import (
    NotSerializable,
    check_plain,
    name_text,
)

# What Lua stores whole: a record's number is written with 14 digits.
MOST_RETRIES = 2**31 - 1
MOST_PRIORITY = 2**31 - 1
MOST_TAGS = 32
MOST_NAME_BYTES = 255
MOST_APP_DATA_BYTES = 32 * 1024
RESERVED_ENDINGS = ("-history", "-dependencies", "-dependents")

AFTER = (
    "the handle or the id of a job, or a list of these (in @job: the name of another job "
    "of the same row, or a list of names)"
)
AFTER_ENTITY = (
    "handles of jobs (an entity has no end that could be waited for: enqueue what comes "
    "next at the end of its run)"
)
BACKOFF = (
    "seconds, a list of them, exponential(…), or a function of (attempt, exception)"
)
EXPONENTIAL = {field.name for field in fields(Exponential)}
EXCEPTIONS = "a list of exception classes and dotted names of such"
APP_DATA = "a dict of plain JSON: texts, numbers, booleans, None, lists and dicts"


class Refused(Exception):
    """A value is refused; the text completes "must be …"."""


def flag(value: Any) -> bool:
    """True or False."""
    if type(value) is not bool:
        raise Refused("True or False")
    return value


def name(value: Any) -> str:
    """A text that can be a key or a part of one."""
    if not isinstance(value, str) or not value:
        raise Refused("a string that is not empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise Refused("text that UTF-8 can carry") from None
    if size > MOST_NAME_BYTES:
        raise Refused(f"at most {MOST_NAME_BYTES} bytes long")
    return name_text(value)


def optional_name(value: Any) -> str | None:
    """A text that can be a key or a part of one, or None."""
    return None if value is None else name(value)


def queue(value: Any) -> str:
    """The name of a queue."""
    text = name(value)
    if "*" in text or "?" in text:
        raise Refused("the name of one queue, without * and ?")
    return text


def jid(value: Any) -> str | None:
    """A job's id, or None."""
    if value is None:
        return None
    text = name(value)
    if text.endswith(RESERVED_ENDINGS):
        raise Refused(f"an id that does not end in {', '.join(RESERVED_ENDINGS)}")
    return text


def one_of(*words: str) -> Callable[[Any], str]:
    """Return the check of an option that is one of these words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise Refused(" or ".join(f'"{word}"' for word in words))
        return value

    return check


def whole(least: int, most: int) -> Callable[[Any], int]:
    """Return the check of a whole number."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused("a whole number")
        if not least <= value <= most:
            raise Refused(f"between {least} and {most}")
        return int(value)

    return check


def seconds(value: Any) -> float:
    """A span of time from 0."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused("a number of seconds or a timedelta")
    if not is_finite(value) or value < 0 or value > 1e10:
        raise Refused("a finite number of seconds, not below 0")
    return value


def interval(value: Any) -> float:
    """A span of time of a second or more."""
    length = seconds(value)
    if length < 1:
        raise Refused("at least a second")
    return length


def above_zero(none: str) -> Callable[[Any], float | None]:
    """Return the check of a span of time above 0; None stands for what `none` says."""

    def check(value: Any) -> float | None:
        if value is None:
            return None
        span = seconds(value)
        if span == 0:
            raise Refused(f"above 0, or None for {none}")
        return span

    return check


timeout = above_zero("no limit")
span = above_zero("none")


def moment(value: Any) -> datetime | None:
    """A point in time, or None."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise Refused("a datetime (for a span of time use delay=)")
    # By name: the settings decide, and this module is loaded without Django.
    times = import_module("django_qless.conf.times")
    try:
        found: datetime = times.in_utc(value)
    except ValueError as error:
        raise Refused(str(error)) from None
    return found


def expires(value: Any) -> float | datetime | None:
    """A span of time above 0, a point in time, or None for never."""
    if isinstance(value, datetime):
        return moment(value)
    try:
        return span(value)
    except Refused as refused:
        raise Refused(f"{refused}, or an aware datetime") from None


def unique(value: Any) -> Any:
    """True for the job's arguments, a text, a function of the arguments, or None."""
    if value is None or value is False:
        return None
    if value is True or callable(value):
        return value
    try:
        return name(value)
    except Refused:
        raise Refused(
            f"True (one job for the same arguments), a text of at most {MOST_NAME_BYTES} "
            "bytes, or a function that makes one of the job's arguments"
        ) from None


def unique_for(value: Any) -> str | float:
    """The period for which a unique job keeps others out."""
    if value in ("waiting", "running"):
        return str(value)
    try:
        length = span(value)
    except Refused:
        length = None
    if length is None:
        raise Refused(
            '"waiting" (until it starts), "running" (until it has ended), or a number '
            "of seconds or a timedelta above 0 (from its enqueueing)"
        )
    return length


def most_at_once(value: Any) -> int | None:
    """A number of jobs from 1, or None for any number."""
    return None if value is None else whole(1, MOST_RETRIES)(value)


def rate(value: Any) -> str | None:
    """The text of a rate, or None for none."""
    if value is None or is_rate(value):
        return value  # type: ignore[no-any-return]
    raise Refused(RATE)


def key(value: Any) -> Any:
    """The name of a parameter, a function of the arguments, or None."""
    if value is None or callable(value):
        return value
    if isinstance(value, str) and value.isidentifier():
        return value
    raise Refused("the name of a parameter, or a function of the job's arguments")


def sensitive(value: Any) -> bool | tuple[str, ...]:
    """The name of a parameter, several, or True for all."""
    if value is None or value is False:
        return ()
    if value is True:
        return True
    try:
        return strings("names")((value,) if isinstance(value, str) else value)
    except Refused:
        raise Refused(
            'the name of a parameter, a list of such ("return" is the result), or True '
            "for everything"
        ) from None


def backoff(value: Any) -> Any:
    """Seconds, several of them, or a function of attempt and exception."""
    if value is None or isinstance(value, Exponential):
        return value
    if callable(value):
        if not takes(value, 2):
            raise Refused(f"{BACKOFF}; this one cannot be called with two arguments")
        return value
    if isinstance(value, (list, tuple)):
        if not value:
            raise Refused("a list with at least one number")
        return tuple(seconds(each) for each in value)
    if isinstance(value, Mapping) and value.keys() == EXPONENTIAL:
        # An Exponential as it travels with a job.
        try:
            return exponential(**value)
        except InvalidOption:
            raise Refused(BACKOFF) from None
    try:
        return seconds(value)
    except Refused:
        raise Refused(BACKOFF) from None


def exceptions(value: Any) -> tuple[type[BaseException] | str, ...]:
    """Exception classes, or their dotted names."""
    if isinstance(value, (type, str)):
        value = (value,)
    if not isinstance(value, Iterable):
        raise Refused(EXCEPTIONS)
    found = tuple(value)
    for each in found:
        if is_dotted(each) and "." in each:
            continue
        if not isinstance(each, type) or not issubclass(each, BaseException):
            raise Refused(EXCEPTIONS)
        if issubclass(each, (Retry, Fail, ShuttingDown, JobLost)):
            raise Refused(f"{EXCEPTIONS}; {each.__name__} says itself what happens")
    return tuple(dict.fromkeys(found))


def strings(what: str) -> Callable[[Any], tuple[str, ...]]:
    """Return the check of a list of texts, without repetitions; `what` names them."""

    def check(value: Any) -> tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise Refused(f"a list of {what}")
        found = tuple(value)
        for each in found:
            if not isinstance(each, str) or not each:
                raise Refused(f"a list of {what}, each a string that is not empty")
        return tuple(dict.fromkeys(found))

    return check


def tags(value: Any) -> tuple[str, ...]:
    """A few tags."""
    found = strings("tags")(value)
    if len(found) > MOST_TAGS:
        raise Refused(f"a list of at most {MOST_TAGS} tags")
    return found


def after(value: Any) -> tuple[Any, ...]:
    """Handles, ids or names of jobs, one or several."""
    if isinstance(value, str) or hasattr(value, "jid"):
        value = (value,)
    if not isinstance(value, Iterable):
        raise Refused(AFTER)
    found = tuple(value)
    for each in found:
        if isinstance(each, str):
            if not each:
                raise Refused(AFTER)
        elif hasattr(each, "entity"):
            raise Refused(AFTER_ENTITY)
        elif not isinstance(getattr(each, "jid", None), str):
            raise Refused(AFTER)
    return tuple(dict.fromkeys(found))


def is_dotted(value: object) -> bool:
    """Return whether this is a name, or several with dots between them."""
    return isinstance(value, str) and all(
        part.isidentifier() for part in value.split(".")
    )


def on_commit(value: Any) -> bool | str | None:
    """A database, an outbox, or whether to wait for the default one's commit at all."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value:
        return value
    raise Refused('False, True, "outbox" or the name of a database')


def app_data(value: Any) -> str:
    """A JSON object, as text; "" for an empty one."""
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        raise Refused(APP_DATA)
    try:
        check_plain(value)
        text = json.dumps(
            dict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, NotSerializable) as error:
        raise Refused(f"{APP_DATA} ({error})") from None
    if size > MOST_APP_DATA_BYTES:
        raise Refused(f"at most {MOST_APP_DATA_BYTES:,} bytes as JSON ({size:,} now)")
    return text if value else ""


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function accepts this many positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True  # written in C, without a signature
    return True
