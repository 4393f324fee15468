"""What may stand in QLESS: each rule looks at one alias and tells what is wrong.

`checks.py` shows all of it, with numbers; `conf.py` refuses to connect at the first.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from redis.connection import Connection, ConnectionPool, SSLConnection, parse_url

from django_qless.core.arguments import is_finite

WAYS = ("LOCATION", "CACHE", "EMBEDDED", "SENTINELS", "CLUSTER")
KNOWN = frozenset(
    {
        *WAYS,
        *("DB", "SERVICE_NAME", "PREFIX", "OPTIONS", "ENGINE"),
        *("QUEUES", "CONFIG", "MIDDLEWARE", "CONTEXT", "ON_OUTAGE", "TEST"),
        *("PATIENCE", "WORKER_PATIENCE", "PROJECT"),
    }
)
MOST_PATIENCE = 3600
ENGINES = ("auto", "function", "script")
QUEUE_OPTIONS = {
    "heartbeat": "seconds that a lock lasts",
    "max_concurrency": "jobs that run at once, 0 for no limit",
    "weight": "the queue's share when queues are drawn by lot",
    "timeout": "seconds until an exception is raised in a job of this queue",
    "hard_timeout": "seconds until the process of a job of this queue is killed",
}
QUEUE_LIMITS = ("timeout", "hard_timeout")
CONFIG_NUMBERS = frozenset(
    {
        *("heartbeat", "grace-period", "jobs-history", "jobs-history-count"),
        *("results-count", "results-bytes"),
        *("canceled-history", "canceled-history-count", "max-job-history"),
        *("stats-history", "histogram-history", "max-worker-age"),
    }
)
CONFIG_ENDINGS = ("-heartbeat", "-max-concurrency", "-weight")

REMEDY = 'Set QLESS = {"default": {"LOCATION": "redis://localhost:6379/0"}}.'


class Problem(NamedTuple):
    """Something wrong: the number of its check, what it is, and the remedy."""

    number: str
    text: str
    hint: str


def whole_setting(value: Any) -> Iterator[Problem]:
    """Judge QLESS itself; if nothing is wrong its aliases can be judged."""
    if not isinstance(value, Mapping) or not all(
        isinstance(alias, str) and isinstance(options, Mapping)
        for alias, options in value.items()
    ):
        yield Problem("E001", "QLESS must be a dict of aliases, each a dict.", REMEDY)
    elif "default" not in value:
        yield Problem("E001", 'QLESS has no alias "default".', REMEDY)


def one_alias(alias: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    """Judge what one alias says."""
    for rule in _RULES:
        for number, text, hint in rule(options):
            yield Problem(number, f"QLESS[{alias!r}]: {text}", hint)


def _names(options: Mapping[str, Any]) -> Iterator[Problem]:
    for name in options:
        if name not in KNOWN:
            near = get_close_matches(str(name).upper(), KNOWN, n=1)
            yield Problem(
                "E002",
                f"there is no option {name!r}.",
                f"Did you mean {near[0]!r}?"
                if near
                else f"The options are {', '.join(sorted(KNOWN))}.",
            )


def _ways(options: Mapping[str, Any]) -> Iterator[Problem]:
    ways = [way for way in WAYS if options.get(way)]
    if len(ways) > 1:
        yield Problem(
            "E003",
            f"{' and '.join(ways)} exclude each other.",
            "Keep exactly one way to connect.",
        )
    if options.get("DB") is not None and not options.get("CACHE"):
        yield Problem(
            "E003",
            "DB goes with CACHE only.",
            "Write the database into LOCATION: redis://localhost:6379/1.",
        )
    possible = "Possible today are LOCATION, CACHE and EMBEDDED."
    for way in ("SENTINELS", "SERVICE_NAME", "CLUSTER"):
        if options.get(way):
            yield Problem("E004", f"{way} is not available yet.", possible)
    outage = options.get("ON_OUTAGE", "raise")
    if outage != "raise":
        yield Problem(
            "E004",
            f"ON_OUTAGE={outage!r} is not available.",
            'Possible today is "raise": enqueue raises when the server is away.',
        )


def _location(options: Mapping[str, Any]) -> Iterator[Problem]:
    location = options.get("LOCATION")
    if location is None:
        return
    hint = "Write redis://host:6379/0, rediss://host:6379/0 or unix:///path?db=0."
    if not isinstance(location, str) or not location:
        yield Problem("E005", f"LOCATION must be a URL, not {location!r}.", hint)
        return
    try:
        parse_url(location)  # type: ignore[no-untyped-call]
    except ValueError as error:
        # The URL itself may hold a password, so it is not shown.
        yield Problem("E005", f"LOCATION is no URL of a server: {error}", hint)


def _cache(options: Mapping[str, Any]) -> Iterator[Problem]:
    cache, database = options.get("CACHE"), options.get("DB")
    if database is not None and (
        isinstance(database, bool) or not isinstance(database, int) or database < 0
    ):
        yield Problem(
            "E006", f"DB must be a number from 0, not {database!r}.", "Write DB: 1."
        )
    if cache is None:
        return
    known = ", ".join(sorted(settings.CACHES))
    if cache not in settings.CACHES:
        yield Problem(
            "E006", f"CACHE {cache!r} is not in CACHES.", f"There are: {known}."
        )


def _embedded(options: Mapping[str, Any]) -> Iterator[Problem]:
    embedded = options.get("EMBEDDED")
    if embedded is not None and not isinstance(embedded, (bool, str, Path)):
        yield Problem(
            "E007",
            f"EMBEDDED must be True or a folder, not {embedded!r}.",
            "True keeps the data in BASE_DIR/.qless.",
        )
    elif embedded is True and not getattr(settings, "BASE_DIR", None):
        yield Problem(
            "E007",
            "EMBEDDED needs the setting BASE_DIR, to keep its data in BASE_DIR/.qless.",
            'Set BASE_DIR, or name a folder: "EMBEDDED": "/path/to/folder".',
        )


def _prefix(options: Mapping[str, Any]) -> Iterator[Problem]:
    prefix = options.get("PREFIX", "ql:")
    if not isinstance(prefix, str) or not prefix or len(prefix) > 100:
        yield Problem(
            "E008",
            f"PREFIX must be a text of 1 to 100 characters, not {prefix!r}.",
            'The usual one is "ql:".',
        )


def _engine(options: Mapping[str, Any]) -> Iterator[Problem]:
    engine = options.get("ENGINE", "auto")
    if engine not in ENGINES:
        yield Problem(
            "E009",
            f"there is no ENGINE {engine!r}.",
            f"Possible are {', '.join(ENGINES)}.",
        )


def _project(options: Mapping[str, Any]) -> Iterator[Problem]:
    name = options.get("PROJECT", "project")
    if not isinstance(name, str) or not 0 < len(name.encode()) <= 100:
        yield Problem(
            "E034",
            f"PROJECT must be a text of 1 to 100 bytes, not {name!r}.",
            "It tells this project from others with recurring jobs in the namespace.",
        )


def _patience(options: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("PATIENCE", "WORKER_PATIENCE"):
        value = options.get(name, 0)
        if not _number(value) or not 0 <= value <= MOST_PATIENCE:
            yield Problem(
                "E033",
                f"{name} must be a number of seconds from 0 to {MOST_PATIENCE}, not "
                f"{value!r}.",
                "For so long a call is tried again while the server cannot be reached.",
            )


def _options(options: Mapping[str, Any]) -> Iterator[Problem]:
    given = options.get("OPTIONS", {})
    if not isinstance(given, Mapping):
        yield Problem("E010", "OPTIONS must be a dict.", "Its values go to redis-py.")
        return
    for name in given:
        if name in _OURS:
            yield Problem(
                "E010", f"OPTIONS must not have {name!r}: {_OURS[name]}", "Remove it."
            )
        elif name not in redis_options():
            near = get_close_matches(str(name), redis_options(), n=1)
            yield Problem(
                "E010",
                f"redis-py knows no connection option {name!r}.",
                f"Did you mean {near[0]!r}?" if near else "Look it up in its manual.",
            )


def _queues(options: Mapping[str, Any]) -> Iterator[Problem]:
    queues = options.get("QUEUES", {})
    if not isinstance(queues, Mapping):
        hint = 'For example {"mail": {"max_concurrency": 4}}.'
        yield Problem("E011", "QUEUES must be a dict of queues.", hint)
        return
    for queue, each in queues.items():
        if not isinstance(queue, str) or not queue or "*" in queue or "?" in queue:
            hint = "A queue's name has at least one character, and neither * nor ?."
            yield Problem("E011", f"QUEUES: {queue!r} cannot name a queue.", hint)
        elif not isinstance(each, Mapping):
            hint = f"Its options are {', '.join(QUEUE_OPTIONS)}."
            yield Problem("E011", f"QUEUES: {queue!r} must have a dict.", hint)
        else:
            yield from _one_queue(queue, each)


def _one_queue(queue: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in options.items():
        if name not in QUEUE_OPTIONS:
            near = get_close_matches(str(name), QUEUE_OPTIONS, n=1)
            yield Problem(
                "E011",
                f"QUEUES: queue {queue!r} has no option {name!r}.",
                f"Did you mean {near[0]!r}?"
                if near
                else f"The options are {', '.join(QUEUE_OPTIONS)}.",
            )
        elif not _number(value) or value < 0:
            yield Problem(
                "E011",
                f"QUEUES: {name} of queue {queue!r} must be a number, not {value!r}.",
                f"It is {QUEUE_OPTIONS[name]}.",
            )
        elif name in QUEUE_LIMITS and value == 0:
            yield Problem(
                "E011",
                f"QUEUES: {name} of queue {queue!r} must be above 0.",
                "Leave it away for no limit.",
            )
    soft, hard = (options.get(name, 0) for name in QUEUE_LIMITS)
    if _number(soft) and _number(hard) and soft > hard > 0:
        yield Problem(
            "E011",
            f"QUEUES: timeout of queue {queue!r} exceeds its hard_timeout.",
            "A job is killed at the hard_timeout, so let the timeout come before it.",
        )


def _config(options: Mapping[str, Any]) -> Iterator[Problem]:
    config = options.get("CONFIG", {})
    if not isinstance(config, Mapping):
        yield Problem(
            "E012", "CONFIG must be a dict.", 'For example {"jobs-history": 86400}.'
        )
        return
    for name, value in config.items():
        numeric = name in CONFIG_NUMBERS or str(name).endswith(CONFIG_ENDINGS)
        if name != "application" and not numeric:
            near = get_close_matches(str(name).replace("_", "-"), CONFIG_NUMBERS, n=1)
            yield Problem(
                "E012",
                f"CONFIG: there is no option {name!r}.",
                f"Did you mean {near[0]!r}?"
                if near
                else f"The options are {', '.join(sorted(CONFIG_NUMBERS))}.",
            )
        elif numeric and not _number(value):
            hint = "Seconds, or how many; a number in either case."
            yield Problem(
                "E012", f"CONFIG: {name} must be a number, not {value!r}.", hint
            )


def _middleware(options: Mapping[str, Any]) -> Iterator[Problem]:
    hint = 'A list of dotted names: ["shop.middleware.trace"].'
    for text in _not_dotted("MIDDLEWARE", options.get("MIDDLEWARE", ())):
        yield Problem("E013", text, hint)


def _context(options: Mapping[str, Any]) -> Iterator[Problem]:
    hint = 'A list of dotted names of carriers: ["shop.context.Tenant"].'
    for text in _not_dotted("CONTEXT", options.get("CONTEXT", ())):
        yield Problem("E025", text, hint)


def _not_dotted(option: str, names: Any) -> Iterator[str]:
    if not isinstance(names, (list, tuple)):
        yield f"{option} must be a list."
        return
    for name in names:
        dotted = isinstance(name, str) and all(
            part.isidentifier() for part in name.split(".")
        )
        if not dotted or "." not in name:
            yield f"{option}: {name!r} is no dotted name."


def _timeouts(options: Mapping[str, Any]) -> Iterator[Problem]:
    # How long a worker may block is not limited by these: such calls have a time limit
    # of their own, so a block is never longer than the socket is patient.
    given = options.get("OPTIONS", {})
    for name in ("socket_timeout", "socket_connect_timeout"):
        timeout = given.get(name) if isinstance(given, Mapping) else None
        if timeout is not None and (not _number(timeout) or timeout <= 0):
            yield Problem(
                "E014",
                f"{name} must be a number of seconds above 0, not {timeout!r}.",
                "Leave it away for 5 seconds.",
            )


def _test(options: Mapping[str, Any]) -> Iterator[Problem]:
    test = options.get("TEST")
    if test is None or test is False:
        return
    if not isinstance(test, Mapping) or "TEST" in test:
        yield Problem(
            "E040",
            "TEST must be False, or a dict of what the alias is in tests.",
            'For example {"LOCATION": "redis://localhost:6379/9"}.',
        )
        return
    for rule in _RULES:
        for number, text, hint in rule(test):
            yield Problem(number, f"TEST: {text}", hint)


def _number(value: Any) -> bool:
    return type(value) in (int, float) and is_finite(value)


def redis_options() -> frozenset[str]:
    """Return the names of the options that connections and pools of redis-py take."""
    names: set[str] = set()
    for kind in (ConnectionPool, Connection, SSLConnection):
        for parent in kind.__mro__:
            if "__init__" in vars(parent) and parent is not object:
                names.update(inspect.signature(parent).parameters)
    return frozenset(names - {"kwargs", "connection_kwargs", "connection_class"})


_OURS = {
    "decode_responses": "the client reads bytes.",
    "encoding": "the client writes UTF-8.",
    "retry": "the client itself repeats calls, safely.",
    "retry_on_error": "the client itself repeats calls, safely.",
    "retry_on_timeout": "the client itself repeats calls, safely.",
    "parser_class": "the client picks a parser for both kinds of connection.",
}

_RULES = (
    *(_names, _ways, _location, _cache, _embedded, _prefix, _engine, _options),
    *(_patience, _project),
    *(_queues, _config, _middleware, _context, _timeouts, _test),
)
