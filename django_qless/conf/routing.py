"""Routing: an alias and a queue become the namespace that has the queue.

A namespace is named like an alias, see `namespaces.py`; without NAMESPACES it is the alias
itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_noop

from django_qless import conf
from django_qless.conf import namespaces, partitions
from django_qless.conf.namespaces import SEPARATOR, Routes
from django_qless.core import new_jid
from django_qless.core.put import time_of
from django_qless.exceptions import InvalidOption

REMEDY = gettext_noop(
    "Nothing goes from one namespace to another in one call: route both queues to one, "
    "or let the first job enqueue the second, by .delay() at its end."
)


class Routed(Protocol):
    """What has an alias and a queue: the options of a job."""

    @property
    def alias(self) -> str:
        """The alias."""

    @property
    def queue(self) -> str:
        """The queue."""


def namespace_of(alias: str, queue: str) -> str:
    """Return the name of the namespace that has this queue of an alias.

    Of a queue that is split it is the first partition, or the one that `alias` names.
    Raises InvalidOption if the alias is a namespace, and not one of this queue.
    """
    try:
        routes = _routes[alias]
    except KeyError:
        routes = _read(alias)
    if routes is None:
        return alias
    found = routes.all_of(queue)
    if alias in found:
        return alias
    if alias != routes.alias:
        raise InvalidOption(
            f"NAMESPACES routes the queue {queue!r} to {found[0]!r}, not to {alias!r}: "
            f"write alias={routes.alias!r}."
        )
    return found[0]


def partitions_of(alias: str, queue: str) -> tuple[str, ...]:
    """Return the names of the partitions of a queue; () if it is not split.

    The alias may be that of a partition itself.
    """
    routes = _routes[alias] if alias in _routes else _read(alias)
    return () if routes is None else routes.partitions.get(queue, ())


def split_queue(name: str) -> str:
    """Return the queue of which a namespace is a partition, "" if it is none."""
    routes = _routes[name] if name in _routes else _read(name)
    return "" if routes is None else routes.split.get(name, "")


def job_namespace(alias: str, queue: str, *, jid: str = "", key: str = "") -> str:
    """Return the name of the namespace where a job belongs, as the setting is now.

    `key` keeps jobs of a split queue together: the entity; else the concurrency key; else
    the unique key, as the server has it. A job without any belongs where the end of its jid
    says, if that names a partition of the queue, or else where a hash of the jid says. So
    the same is said of a job each time. For a new job, without a jid, partitions take turns.

    Raises InvalidOption as `namespace_of` does, if the queue is not split.
    """
    names = partitions_of(alias, queue)
    if not names:
        return namespace_of(alias, queue)
    if not key and (drawn_for := marked(jid, names)):
        return drawn_for[0]
    if key or jid:
        return names[partitions.index_of(key or jid, len(names))]
    return names[partitions.next_index(len(names))]


def schedule_namespace(alias: str, queue: str, schedule: str) -> str:
    """Return the name of the namespace where a schedule belongs, by its id.

    Not by the name of its job, which may change: that of a row is "<name>:<row>".
    """
    return job_namespace(alias, queue, key=schedule.partition(":")[2] or schedule)


def queue_namespaces(alias: str, queue: str) -> tuple[str, ...]:
    """Return the names of all namespaces in which to look at a queue of an alias."""
    if alias.endswith(SEPARATOR):
        return (alias.removesuffix(SEPARATOR),)
    routes = _routes[alias] if alias in _routes else _read(alias)
    if routes is None or routes.alias != alias:
        return (alias,)
    return routes.all_of(queue)


def shares(alias: str, queues: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the namespaces that may have these names and globs, each with its own.

    The names come in the order of the namespaces.
    """
    names = conf.namespaces_of(alias)
    routes = _read(names[0]) if len(names) > 1 else None
    if routes is None:
        return [(names[0], tuple(queues))]
    found = (
        (name, tuple(queue for queue in queues if routes.may_have(name, queue)))
        for name in names
    )
    return [(name, own) for name, own in found if own]


def only(name: str) -> str:
    """Return what names one namespace alone, and not its alias with all of them."""
    return f"{name}{SEPARATOR}" if len(conf.namespaces_of(name)) > 1 else name


def namespace(options: Routed) -> str:
    """Return the name of the namespace of jobs with these options."""
    return namespace_of(options.alias, options.queue)


def alias_of(name: str) -> str:
    """Return the alias of a namespace; of an alias itself."""
    routes = _routes[name] if name in _routes else _read(name)
    return name if routes is None else routes.alias


def place(name: str, queue: str = "") -> str:
    """Return the words for a queue and its namespace, for messages."""
    if not is_routed(name):
        return f"in alias {name!r}"
    return f"in namespace {name!r}" + (f" (queue {queue!r})" if queue else "")


def is_routed(name: str) -> bool:
    """Return whether an alias has, or is, one of several namespaces."""
    routes = _routes[name] if name in _routes else _read(name)
    return routes is not None


def remedy(name: str) -> str:
    """Return what to do instead of going to another namespace; "" without NAMESPACES."""
    return f". {REMEDY}" if is_routed(name) else ""


def check_stays(whose: str, name: str, queue: str, other: str) -> None:
    """Raise InvalidOption if a queue is not in this namespace, where `queue` is.

    `whose` says what would go there.
    """
    routes = _routes[name] if name in _routes else _read(name)
    if routes is not None and name not in (found := routes.all_of(other)):
        raise InvalidOption(
            f"{whose}: its queue {queue!r} is in namespace {name!r}, and the queue "
            f"{other!r} in {found[0]!r}. {REMEDY}"
        )


def elsewhere(name: str, queue: str, jid: str) -> str:
    """Return the namespace of a queue if it is another than this one; else "".

    A job of `name` that goes into the queue leaves its namespace; of a queue that is split
    it goes to the partition that its jid says.
    """
    routes = _routes[name] if name in _routes else _read(name)
    if routes is None or name in routes.all_of(queue):
        return ""
    return job_namespace(routes.alias, queue, jid=jid)


def check_option(name: str, option: str, value: str) -> None:
    """Raise InvalidOption for an option of the core that names a queue elsewhere."""
    for queue, which, other in namespaces.queues_named({}, {option: value}):
        try:
            check_stays(f"{which} of a queue", name, queue, str(other))
        except InvalidOption as error:
            error.enqueues = False
            raise


# The last characters of a jid that we draw name its namespace. This is a hint: it says
# where to look first.
MARK = 3


def jid_maker(name: str) -> Callable[[], str]:
    """Return what draws new jids for a namespace."""
    routes = _routes[name] if name in _routes else _read(name)
    if routes is None:
        return new_jid
    mark = mark_of(name)
    return lambda: new_jid()[:-MARK] + mark


@lru_cache(maxsize=1000)
def mark_of(name: str) -> str:
    """Return the end of the jids that are drawn for a namespace."""
    # Characters that a jid may have.
    return hashlib.sha256(name.encode()).hexdigest()[:MARK]


def likely_namespaces(alias: str, jid: str) -> list[str]:
    """Return the namespaces of an alias in which to look for a job first."""
    names = conf.namespaces_of(alias)
    if len(names) > 1:
        return marked(jid, names) or names
    return names


def marked(jid: str, names: Sequence[str]) -> list[str]:
    """Return those of these namespaces that the end of a jid names, if we have drawn it."""
    if time_of(jid) is None:
        return []
    return [name for name in names if jid.endswith(mark_of(name))]


def _read(alias: str) -> Routes | None:
    """Read what routes the queues of an alias; None if it is one namespace."""
    try:
        value = conf.raw_setting()
    except ImproperlyConfigured:
        return None  # Said where the alias is used.
    member = namespaces.members(value).get(alias)
    found = None
    if member is not None:
        found = namespaces.routes_of(member.alias, value[member.alias])
    _routes[alias] = found
    if found is None:
        unrouted.add(alias)
    return found


_routes: dict[str, Routes | None] = {}

#: Aliases that are known to have no NAMESPACES: for their jobs there is nothing to ask.
unrouted: set[str] = set()

conf.on_change(_routes.clear)
conf.on_change(unrouted.clear)
