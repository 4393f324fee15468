"""The checks of the setting QLESS: one function for each kind of value.

A check yields the problems of a value; their text follows the name of the key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from redis.connection import Connection, ConnectionPool, SSLConnection, parse_url

from django_qless.conf import partitions
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
    partitions.OPTION: "into how many namespaces this queue is split",
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


def location(value: Any) -> Iterator[Problem]:
    """A URL that redis-py can read."""
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


def cache(value: Any) -> Iterator[Problem]:
    """The name of a cache."""
    if value is not None and value not in settings.CACHES:
        known_caches = ", ".join(sorted(settings.CACHES))
        yield Problem(f" {value!r} is not in CACHES.", f"There are: {known_caches}.")


def embedded(value: Any) -> Iterator[Problem]:
    """True, or a folder for the data."""
    if value is not None and not isinstance(value, (bool, str, Path)):
        yield Problem(f" must be True or a folder, not {value!r}.")
    elif value is True and not getattr(settings, "BASE_DIR", None):
        yield Problem(
            " needs the setting BASE_DIR, to keep its data in BASE_DIR/.qless.",
            'Set BASE_DIR, or name a folder: "EMBEDDED": "/path/to/folder".',
        )


def options(value: Any) -> Iterator[Problem]:
    """Options of redis-py's connections, except those that the client sets."""
    if not isinstance(value, Mapping):
        yield Problem(" must be a dict.")
        return
    for name in value:
        if name in _SET_BY_CLIENT:
            yield Problem(
                f" must not have {name!r}: {_SET_BY_CLIENT[name]}", "Remove it."
            )
        elif name not in redis_options() and name != "ssl":
            yield Problem(
                f": redis-py knows no connection option {name!r}.",
                near_miss(name, redis_options()) or "Look it up in its manual.",
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


def sentinels(value: Any) -> Iterator[Problem]:
    """Addresses of sentinels: pairs of host and port."""
    if not isinstance(value, (list, tuple)):
        yield Problem(f" must be a list of pairs of host and port, not {value!r}.")
        return
    for each in value:
        pair = tuple(each) if isinstance(each, (list, tuple)) else ()
        if len(pair) != 2 or not isinstance(pair[0], str) or not pair[0]:
            yield Problem(f": {each!r} is no pair of host and port.")
        elif type(pair[1]) is not int or not 0 < pair[1] < 65536:
            yield Problem(f": {pair[1]!r} of {pair[0]} is no port.")
    pairs = [tuple(each) for each in value if isinstance(each, (list, tuple))]
    if len({*pairs}) != len(pairs):
        yield Problem(" names an address twice.", "Name each sentinel once.")


def cluster(value: Any) -> Iterator[Problem]:
    """URLs of nodes of a cluster, which differ by host and port only."""
    if not isinstance(value, (list, tuple)):
        yield Problem(f" must be a list of URLs of nodes, not {type(value).__name__}.")
        return
    if not value:
        yield Problem(" names no node.", "Name some nodes, or leave CLUSTER away.")
        return
    nodes: list[dict[str, Any]] = []
    for number, each in enumerate(value, 1):
        # The URL itself may hold a password, so it is not shown.
        try:
            nodes.append(dict(parse_url(each)))  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, AttributeError):
            text = f": number {number} is no URL of a node."
            yield Problem(text, "Write redis://host:7000 or rediss://host:7000.")
            return
        if "path" in nodes[-1]:
            text = f": number {number} is a Unix socket, by which no node is found."
            yield Problem(text, "Write redis://host:7000.")
        elif nodes[-1].get("db"):
            text = f": number {number} names database {nodes[-1]['db']}."
            yield Problem(text, "A cluster has database 0 only: leave the number away.")
    places = [(node.pop("host", None), node.pop("port", None)) for node in nodes]
    if len({*places}) != len(places):
        yield Problem(" names a node twice.", "Name each node once.")
    for node in nodes:
        node.pop("db", None)
    if any(node != nodes[0] for node in nodes):
        yield Problem(
            ": the URLs differ in more than host and port.",
            "All nodes need the same scheme, user, password and options.",
        )


def sentinel_options(value: Any) -> Iterator[Problem]:
    """Options of the connections to sentinels."""
    yield from options(value)
    for name in ("db", "host", "port"):
        if isinstance(value, Mapping) and name in value:
            yield Problem(f" must not have {name!r}.", "Remove it.")


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
        elif name == partitions.OPTION:
            if not partitions.is_count(value):
                yield Problem(
                    f": partitions of queue {queue!r} must be a whole number from 1 to "
                    f"{partitions.MOST}, not {value!r}.",
                    "Leave it away to have the queue in one namespace.",
                    "E064",
                )
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
