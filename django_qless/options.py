"""The options of a job: what each may be, checked when it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from typing import Any

from django_qless.exceptions import InvalidOption, UnknownOption

Backoff = (
    float | Sequence[float] | Callable[[int, BaseException], float | timedelta] | None
)

#: What makes a middleware: it takes what runs a job, and returns what does it instead.
Factory = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]

# What Lua stores whole: a record's number is written with 14 digits.
MOST_RETRIES = 2**31 - 1
MOST_PRIORITY = 2**31 - 1
MOST_TAGS = 32
MOST_NAME_BYTES = 255
RESERVED_ENDINGS = ("-history", "-dependencies", "-dependents")


@dataclass(frozen=True, slots=True)
class Options:
    """How a job is put and run. Seconds where it says seconds.

    Values are those that `changed()` made of what the user wrote.
    """

    queue: str = "default"
    alias: str = "default"
    priority: int = 0
    """Higher goes first."""
    delay: float = 0
    """Seconds until the job may start."""
    run_at: datetime | None = None
    """When the job may start, instead of a delay."""
    retries: int = 3
    """How often the job is run again after a failure."""
    backoff: Any = None
    """Seconds between failure and retry: a number, a list, a function of (attempt,
    exception), or None for exponential."""
    timeout: float | None = None
    """Seconds until JobTimeout is raised in the job; None: as its queue has it."""
    hard_timeout: float | None = None
    """Seconds until the job's process is killed; None: as its queue has it."""
    middleware: tuple[Any, ...] = ()
    """Factories, or their dotted names, of what is called around the job's function,
    inside of the alias's MIDDLEWARE; the first is the outermost."""
    tags: tuple[str, ...] = ()
    after: tuple[Any, ...] = ()
    """Handles of the jobs that must be complete first."""
    after_jids: tuple[str, ...] = ()
    on_commit: bool | str | None = None
    """The database whose commit the put waits for; None and True: the default one;
    False: put at once."""
    jid: str | None = None
    result_ttl: int = 86400
    """Seconds for which the result is kept; 0: it is not kept."""

    def changed(self, whose: str, **given: Any) -> Options:
        """Return a copy with these options, each checked.

        `whose` names the job in messages. Raises UnknownOption or InvalidOption.
        """
        options = self.with_checked(whose, **given)
        soft, hard = options.timeout, options.hard_timeout
        if soft is not None and hard is not None and soft > hard:
            raise InvalidOption(
                f"{whose}: timeout={soft:g} exceeds hard_timeout={hard:g}: the job's "
                "process would be killed before the job could be told."
            )
        if options.delay and options.run_at is not None:
            if "delay" in given and "run_at" in given:
                raise InvalidOption(f"{whose}: delay and run_at exclude each other.")
            # The later word wins: .using(run_at=…) of a job declared with a delay.
            options = (
                replace(options, delay=0)
                if "run_at" in given
                else replace(options, run_at=None)
            )
        return options

    def with_checked(self, whose: str, **given: Any) -> Options:
        """Return a copy with these options, each checked by itself."""
        checked = {name: check(whose, name, value) for name, value in given.items()}
        return replace(self, **checked)


KNOWN = frozenset(field.name for field in fields(Options))

# What only a call can know, so not for the decorator.
ONLY_USING = frozenset({"after", "after_jids", "jid", "run_at"})

# What belongs to the job's code, so not to a call: workers run what they find there.
ONLY_DECLARED = ("middleware",)


def check(whose: str, name: str, value: Any) -> Any:
    """Return the value as Options holds it. Raises UnknownOption or InvalidOption."""
    known = _CHECKS.get(name)
    if known is None:
        near = get_close_matches(name, KNOWN, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UnknownOption(
            f"{whose}: there is no option {name!r}.{hint} "
            f"The options are {', '.join(sorted(KNOWN))}."
        )
    try:
        return known(value)
    except _Refused as refused:
        raise InvalidOption(
            f"{whose}: {name} must be {refused}, not {_shown(value)}."
        ) from None


class _Refused(Exception):
    """Says what a value must be."""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _Refused("a string that is not empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise _Refused("text that UTF-8 can carry") from None
    if size > MOST_NAME_BYTES:
        raise _Refused(f"at most {MOST_NAME_BYTES} bytes long")
    return str(value)


def _queue(value: Any) -> str:
    queue = _name(value)
    if "*" in queue or "?" in queue:
        raise _Refused("the name of one queue, without * and ?")
    return queue


def _jid(value: Any) -> str | None:
    if value is None:
        return None
    jid = _name(value)
    if jid.endswith(RESERVED_ENDINGS):
        raise _Refused(f"an id that does not end in {', '.join(RESERVED_ENDINGS)}")
    return jid


def _whole(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Refused("a whole number")
    if not least <= value <= most:
        raise _Refused(f"between {least} and {most}")
    return int(value)


def _seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Refused("a number of seconds or a timedelta")
    if not math.isfinite(value) or value < 0 or value > 1e10:
        raise _Refused("a finite number of seconds, not below 0")
    return value


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds == 0:
        raise _Refused("above 0, or None for no limit")
    return seconds


def _middleware(value: Any) -> tuple[Any, ...]:
    refused = _Refused("a list of callables and dotted names")
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise refused
    factories = tuple(value)
    for each in factories:
        dotted = isinstance(each, str) and "." in each
        if not dotted and not callable(each):
            raise refused
    return factories


def _run_at(value: Any) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise _Refused("a datetime (for a span of time use delay=)")
    if value.tzinfo is None:
        raise _Refused("an aware datetime, as django.utils.timezone.now() gives")
    return value.astimezone(timezone.utc)


def _backoff(value: Any) -> Any:
    if value is None or callable(value):
        return value
    if isinstance(value, (list, tuple)):
        if not value:
            raise _Refused("a list with at least one number")
        return tuple(_seconds(each) for each in value)
    try:
        return _seconds(value)
    except _Refused:
        raise _Refused(
            "seconds, a list of them, or a function of (attempt, exception)"
        ) from None


def _strings(value: Any, what: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _Refused(f"a list of {what}")
    strings = tuple(value)
    for each in strings:
        if not isinstance(each, str) or not each:
            raise _Refused(f"a list of {what}, each a string that is not empty")
    return tuple(dict.fromkeys(strings))


def _tags(value: Any) -> tuple[str, ...]:
    tags = _strings(value, "tags")
    if len(tags) > MOST_TAGS:
        raise _Refused(f"a list of at most {MOST_TAGS} tags")
    return tags


def _after(value: Any) -> tuple[Any, ...]:
    if hasattr(value, "jid"):
        value = (value,)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _Refused("a list of job handles (for ids use after_jids=)")
    handles = tuple(value)
    for handle in handles:
        if not isinstance(getattr(handle, "jid", None), str):
            raise _Refused("a list of job handles (for ids use after_jids=)")
    return handles


def _on_commit(value: Any) -> bool | str | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value:
        return value
    raise _Refused("False, True or the name of a database")


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": _queue,
    "alias": _name,
    "priority": lambda value: _whole(value, -MOST_PRIORITY, MOST_PRIORITY),
    "delay": _seconds,
    "run_at": _run_at,
    "retries": lambda value: _whole(value, 0, MOST_RETRIES),
    "backoff": _backoff,
    "timeout": _timeout,
    "hard_timeout": _timeout,
    "middleware": _middleware,
    "tags": _tags,
    "after": _after,
    "after_jids": lambda value: _strings(value, "job ids"),
    "on_commit": _on_commit,
    "jid": _jid,
    "result_ttl": lambda value: _whole(value, 0, MOST_RETRIES),
}
