"""The checks of what QLESS says of servers: addresses, and options of redis-py."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from redis.connection import Connection, ConnectionPool, SSLConnection, parse_url

from django_qless.conf.setting_checks import Problem, is_number, near_miss
from django_qless.core.redis_pool import MOST_CONNECTIONS, WITHOUT_EFFECT


def location(value: Any) -> Iterator[Problem]:
    """A URL that redis-py can read."""
    if value is None:
        return
    if not isinstance(value, str) or not value:
        yield Problem(f" must be a URL, not {value!r}.")
        return
    try:
        parsed = parse_url(value)  # type: ignore[no-untyped-call]
    except ValueError as error:
        # The URL itself may hold a password, so it is not shown.
        yield Problem(f" is no URL of a server: {error}")
        return
    yield from without_effect(parsed)


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
    yield from without_effect(value)
    for name in value:
        if name in _NOT_PASSED_ON:
            continue
        if name not in redis_options() and name != "ssl":
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


def without_effect(value: Mapping[str, Any]) -> Iterator[Problem]:
    """Options of redis-py that would change nothing: the client has its own way."""
    for name in value:
        if name in _NOT_PASSED_ON:
            why, remedy = _SET_BY_CLIENT.get(name, _UNUSED)
            yield Problem(f" must not have {name!r}: {why}.", remedy)
    most = value.get("max_connections")
    if most is not None and not (type(most) is int and 0 < most <= MOST_CONNECTIONS):
        yield Problem(
            f": max_connections must be a whole number from 1 to {MOST_CONNECTIONS}, "
            f"not {most!r}.",
            f"Leave it away for {MOST_CONNECTIONS}, which a process never exceeds.",
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
    yield from without_effect(nodes[0])
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


def redis_options() -> frozenset[str]:
    """Return the names of the options that connections and pools of redis-py take."""
    names: set[str] = set()
    for kind in (ConnectionPool, Connection, SSLConnection):
        for parent in kind.__mro__:
            if "__init__" in vars(parent) and parent is not object:
                names.update(inspect.signature(parent).parameters)
    return frozenset(names - {"kwargs", "connection_kwargs", "connection_class"})


_REPEATS = ("the client itself repeats calls, safely", "Set PATIENCE, or remove it.")
_WRITES = ("the client writes UTF-8", "Remove it.")
_UNUSED = ("the client makes no use of it", "Remove it.")
_SET_BY_CLIENT = {
    "decode_responses": ("the client reads bytes", "Remove it."),
    "encoding": _WRITES,
    "encoding_errors": _WRITES,
    "retry": _REPEATS,
    "retry_on_error": _REPEATS,
    "retry_on_timeout": _REPEATS,
    "parser_class": (
        "the client picks a parser for both kinds of connection",
        "Remove it.",
    ),
    "protocol": ("the client speaks RESP2", "Remove it."),
    "health_check_interval": (
        "the client notices a lost server by its calls",
        "Set socket_timeout or socket_keepalive, or remove it.",
    ),
}
_NOT_PASSED_ON = WITHOUT_EFFECT | _SET_BY_CLIENT.keys()
