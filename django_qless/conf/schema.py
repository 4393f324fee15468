"""The keys of the setting QLESS: one table, from which reading and checking derive.

A key is a field of `Alias` with its check, the number of its system check and a hint.
System checks show all problems; `conf` refuses to connect at the first.
"""

# ruff: noqa: RUF009  (`key` returns a field)
from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from redis.connection import Connection, ConnectionPool, SSLConnection, parse_url

from django_qless.core.arguments import is_finite
from django_qless.core.options import OF_A_QUEUE, OPTIONS, known
from django_qless.core.script import Engine

#: The keys that name a server; one of them at most is given.
CONNECTION_KEYS = ("LOCATION", "CACHE", "EMBEDDED", "SENTINELS", "CLUSTER")

#: The options of a queue in QUEUES: those of the core, and the limits of its jobs.
CORE_QUEUE_OPTIONS = {
    option.name.replace("-", "_"): option.meaning for option in OF_A_QUEUE
}
QUEUE_LIMITS = {
    "timeout": "seconds until an exception is raised in a job of this queue",
    "hard_timeout": "seconds until the process of a job of this queue is killed",
}
QUEUE_OPTIONS = CORE_QUEUE_OPTIONS | QUEUE_LIMITS

REMEDY = 'Set QLESS = {"default": {"LOCATION": "redis://localhost:6379/0"}}.'


class Problem(NamedTuple):
    """Something wrong: the text, the remedy, and the number of the system check."""

    text: str
    hint: str = ""
    number: str = ""


#: Yields the problems of a value; their text follows the key.
Check = Callable[[Any], Iterator[Problem]]


class Key(NamedTuple):
    """A key of QLESS: how its value is checked and read."""

    name: str
    check: Check
    number: str
    hint: str
    read: Callable[[Any], Any] | None = None


def key(
    name: str,
    default: Any,
    check: Check,
    number: str,
    hint: str,
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the field of a key. `hint` is the remedy unless its check gives one."""
    row = Key(name, check, number, hint, read)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"key": row})
    return field(default=default, metadata={"key": row})


def must_be(
    what: str, is_valid: Callable[[Any], bool], *, optional: bool = False
) -> Check:
    """Return the check of a value that is one thing; None is fine if optional."""

    def check(value: Any) -> Iterator[Problem]:
        if not (optional and value is None) and not is_valid(value):
            yield Problem(f" must be {what}, not {value!r}.")

    return check


def is_number(value: Any) -> bool:
    """Return whether this is a finite number; bool is none."""
    return type(value) in (int, float) and is_finite(value)


def _text(most: int, unit: str, size: Callable[[str], int]) -> Check:
    return must_be(
        f"a text of 1 to {most} {unit}",
        lambda value: isinstance(value, str) and 0 < size(value) <= most,
    )


def _location(value: Any) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, str) or not value:
        yield Problem(f" must be a URL, not {value!r}.")
        return
    try:
        parse_url(value)  # type: ignore[no-untyped-call]
    except ValueError as error:
        # The URL itself may hold a password, so it is not shown.
        yield Problem(f" is no URL of a server: {error}")


def _cache(value: Any) -> Iterator[Problem]:
    if value is not None and value not in settings.CACHES:
        known_caches = ", ".join(sorted(settings.CACHES))
        yield Problem(f" {value!r} is not in CACHES.", f"There are: {known_caches}.")


def _embedded(value: Any) -> Iterator[Problem]:
    if value is not None and not isinstance(value, (bool, str, Path)):
        yield Problem(f" must be True or a folder, not {value!r}.")
    elif value is True and not getattr(settings, "BASE_DIR", None):
        yield Problem(
            " needs the setting BASE_DIR, to keep its data in BASE_DIR/.qless.",
            'Set BASE_DIR, or name a folder: "EMBEDDED": "/path/to/folder".',
        )


def _options(value: Any) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield Problem(" must be a dict.")
        return
    for name in value:
        if name in _SET_BY_CLIENT:
            yield Problem(
                f" must not have {name!r}: {_SET_BY_CLIENT[name]}", "Remove it."
            )
        elif name not in redis_options():
            yield Problem(
                f": redis-py knows no connection option {name!r}.",
                _near(name, redis_options()) or "Look it up in its manual.",
            )
    # How long a worker may block is not limited by these: such calls have a time limit
    # of their own, so a block is never longer than the socket is patient.
    for name in ("socket_timeout", "socket_connect_timeout"):
        timeout = value.get(name)
        if timeout is not None and (not is_number(timeout) or timeout <= 0):
            yield Problem(
                f": {name} must be a number of seconds above 0, not {timeout!r}.",
                "Leave it away for 5 seconds.",
                "E014",
            )


def _queues(value: Any) -> Iterator[Problem]:
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
            yield Problem(f": {queue!r} must have a dict.", _listed(QUEUE_OPTIONS))
        else:
            yield from _queue(queue, options)


def _queue(queue: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in options.items():
        if name not in QUEUE_OPTIONS:
            yield Problem(
                f": queue {queue!r} has no option {name!r}.",
                _near(name, QUEUE_OPTIONS) or _listed(QUEUE_OPTIONS),
            )
        elif not is_number(value) or value < 0:
            yield Problem(
                f": {name} of queue {queue!r} must be a number, not {value!r}.",
                f"It is {QUEUE_OPTIONS[name]}.",
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


def _config(value: Any) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield Problem(" must be a dict.")
        return
    names = [option.name for option in OPTIONS]
    for name, each in value.items():
        option = known(str(name))
        if option is None:
            near = _near(str(name).replace("_", "-"), names)
            yield Problem(f": there is no option {name!r}.", near or _listed(names))
        elif name != "application" and not is_number(each):
            yield Problem(
                f": {name} must be a number, not {each!r}.", f"It is {option.meaning}."
            )


def _dotted_names(value: Any) -> Iterator[Problem]:
    if not isinstance(value, (list, tuple)):
        yield Problem(" must be a list.")
        return
    for name in value:
        dotted = isinstance(name, str) and all(
            part.isidentifier() for part in name.split(".")
        )
        if not dotted or "." not in name:
            yield Problem(f": {name!r} is no dotted name.")


def _test(value: Any) -> Iterator[Problem]:
    if value is None or value is False:
        return
    if not isinstance(value, Mapping) or "TEST" in value:
        yield Problem(" must be False, or a dict of what the alias is in tests.")
        return
    for problem in _problems(value):
        yield problem._replace(text=f": {problem.text}")


def _unavailable(value: Any) -> Iterator[Problem]:
    if value:
        yield Problem(" is not available yet.")


_PATIENCE = must_be(
    "a number of seconds from 0 to 3600",
    lambda value: is_number(value) and 0 <= value <= 3600,
)
_PATIENCE_HINT = "For so long a call is tried again while the server cannot be reached."


def embedded_directory(value: bool | str | Path | None) -> Path | None:
    """Return the folder that EMBEDDED means, or None for no embedded server."""
    if value is True:
        base = getattr(settings, "BASE_DIR", None)
        return Path(base) / ".qless" if base else None
    return Path(value) if value else None


@dataclass(frozen=True, slots=True)
class Alias:
    """The settings of one alias of QLESS."""

    name: str
    implied: bool = False
    """Whether it is embedded because no server is named."""
    throwaway: int | None = None
    """Its database on the server of a process of tests, if it is there."""
    location: str | None = key(
        "LOCATION",
        None,
        _location,
        "E005",
        "Write redis://host:6379/0, rediss://host:6379/0 or unix:///path?db=0.",
    )
    """The URL of the server: redis://, rediss:// (TLS) or unix://."""
    cache: str | None = key("CACHE", None, _cache, "E006", "")
    """A cache of CACHES in Redis, whose server and connection options are used."""
    db: int | None = key(
        "DB",
        None,
        must_be(
            "a number from 0",
            lambda value: type(value) is int and value >= 0,
            optional=True,
        ),
        "E006",
        "Write DB: 1.",
    )
    """The number of the database, beside CACHE; without it, the cache's."""
    embedded: Path | None = key(
        "EMBEDDED",
        None,
        _embedded,
        "E007",
        "True keeps the data in BASE_DIR/.qless.",
        embedded_directory,
    )
    """A private server for development: True, or the folder of its data. Without a
    server named it is what DEBUG gives you."""
    prefix: str = key(
        "PREFIX",
        "ql:",
        _text(100, "characters", len),
        "E008",
        'The usual one is "ql:".',
    )
    """Text before all keys: aliases on one database need different ones. Default: ql:"""
    options: Mapping[str, Any] = key(
        "OPTIONS", {}, _options, "E010", "Its values go to redis-py."
    )
    """Options of redis-py's connections and pools: timeouts, TLS, credentials."""
    engine: Engine = key(
        "ENGINE",
        "auto",
        must_be(
            '"auto", "function" or "script"',
            lambda value: value in ("auto", "function", "script"),
        ),
        "E009",
        '"auto" uses functions where the server has them.',
    )
    """How the core is loaded: "function", "script", or "auto" (the default): functions
    where the server has them."""
    project: str = key(
        "PROJECT",
        "",
        _text(100, "bytes", lambda text: len(text.encode())),
        "E034",
        "It tells this project from others with recurring jobs in the namespace.",
    )
    """A name for this code, where several projects share a namespace: each applies only
    the recurring jobs that it declares. Default: the package of ROOT_URLCONF."""
    patience: float | None = key("PATIENCE", None, _PATIENCE, "E033", _PATIENCE_HINT)
    """Seconds for which a call is tried again while the server cannot be reached; 10
    unless given."""
    worker_patience: float | None = key(
        "WORKER_PATIENCE", None, _PATIENCE, "E033", _PATIENCE_HINT
    )
    """The same in the processes of a worker."""
    queues: Mapping[str, Mapping[str, float]] = key(
        "QUEUES", {}, _queues, "E011", 'For example {"mail": {"max_concurrency": 4}}.'
    )
    """Options of queues, by name: see below."""
    config: Mapping[str, Any] = key(
        "CONFIG", {}, _config, "E012", 'For example {"jobs-history": 86400}.'
    )
    """Options of the core: see below."""
    middleware: tuple[str, ...] = key(
        "MIDDLEWARE",
        (),
        _dotted_names,
        "E013",
        'A list of dotted names: ["shop.middleware.trace"].',
        tuple,
    )
    """Dotted names of callables around each execution of a job, like Django's."""
    propagators: tuple[str, ...] = key(
        "CONTEXT",
        (),
        _dotted_names,
        "E025",
        'A list of dotted names of context propagators: ["shop.context.Tenant"].',
        tuple,
    )
    """Dotted names of what captures context where a job is enqueued and restores it
    around its run. Language and time zone always travel."""

    @property
    def declared_options(self) -> dict[str, str]:
        """The options of the Lua core that QUEUES and CONFIG declare, as it has them."""
        declared = {name: str(value) for name, value in self.config.items()}
        for queue, options in self.queues.items():
            for name in CORE_QUEUE_OPTIONS:
                if name in options:
                    declared[f"{queue}-{name.replace('_', '-')}"] = str(options[name])
        return declared

    def limits(self, queue: str) -> tuple[float | None, float | None]:
        """Return the soft and hard timeout of a queue's jobs that give none."""
        options = self.queues.get(queue, {})
        return options.get("timeout"), options.get("hard_timeout")


#: The keys that are attributes of an Alias, by attribute.
ATTRIBUTES: dict[str, Key] = {
    each.name: each.metadata["key"] for each in fields(Alias) if each.metadata
}

_AVAILABLE = "Possible today are LOCATION, CACHE and EMBEDDED."

KEYS = (
    *ATTRIBUTES.values(),
    Key("SENTINELS", _unavailable, "E004", _AVAILABLE),
    Key("SERVICE_NAME", _unavailable, "E004", _AVAILABLE),
    Key("CLUSTER", _unavailable, "E004", _AVAILABLE),
    Key(
        "ON_OUTAGE",
        must_be('"raise"', lambda value: value == "raise"),
        "E004",
        "Enqueueing raises when the server is away.",
    ),
    Key("TEST", _test, "E040", 'For example {"LOCATION": "redis://localhost:6379/9"}.'),
)
KNOWN = frozenset(row.name for row in KEYS)


def read_alias(name: str, options: Mapping[str, Any], **more: Any) -> Alias:
    """Return the settings of one alias, which have been validated."""
    values = {
        attribute: row.read(options[row.name]) if row.read else options[row.name]
        for attribute, row in ATTRIBUTES.items()
        if row.name in options
    }
    return Alias(name, **values, **more)


def validate_setting(value: Any) -> Iterator[Problem]:
    """Yield the problems of QLESS itself; without any, its aliases can be validated."""
    if not isinstance(value, Mapping) or not all(
        isinstance(alias, str) and isinstance(options, Mapping)
        for alias, options in value.items()
    ):
        text = "QLESS must be a dict of aliases, each a dict."
        yield Problem(text, REMEDY, "E001")
    elif "default" not in value:
        yield Problem('QLESS has no alias "default".', REMEDY, "E001")


def validate_alias(alias: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of one alias."""
    for problem in _problems(options):
        yield problem._replace(text=f"QLESS[{alias!r}]: {problem.text}")


def _problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    for name in options:
        if name not in KNOWN:
            hint = _near(str(name).upper(), KNOWN) or _listed(sorted(KNOWN))
            yield Problem(f"there is no option {name!r}.", hint, "E002")
    ways = [name for name in CONNECTION_KEYS if options.get(name)]
    if len(ways) > 1:
        text = f"{' and '.join(ways)} exclude each other."
        yield Problem(text, "Keep exactly one way to connect.", "E003")
    if options.get("DB") is not None and not options.get("CACHE"):
        yield Problem(
            "DB goes with CACHE only.",
            "Write the database into LOCATION: redis://localhost:6379/1.",
            "E003",
        )
    for row in KEYS:
        if row.name in options:
            for text, hint, number in row.check(options[row.name]):
                yield Problem(
                    f"{row.name}{text}", hint or row.hint, number or row.number
                )


def _near(name: object, names: Collection[str]) -> str:
    near = get_close_matches(str(name), names, n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


def _listed(names: Collection[str]) -> str:
    return f"The options are {', '.join(names)}."


def redis_options() -> frozenset[str]:
    """Return the names of the options that connections and pools of redis-py take."""
    names: set[str] = set()
    for kind in (ConnectionPool, Connection, SSLConnection):
        for parent in kind.__mro__:
            if "__init__" in vars(parent) and parent is not object:
                names.update(inspect.signature(parent).parameters)
    return frozenset(names - {"kwargs", "connection_kwargs", "connection_class"})


_SET_BY_CLIENT = {
    "decode_responses": "the client reads bytes.",
    "encoding": "the client writes UTF-8.",
    "retry": "the client itself repeats calls, safely.",
    "retry_on_error": "the client itself repeats calls, safely.",
    "retry_on_timeout": "the client itself repeats calls, safely.",
    "parser_class": "the client picks a parser for both kinds of connection.",
}
