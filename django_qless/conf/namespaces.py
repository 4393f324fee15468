"""The key NAMESPACES: each namespace of an alias is an alias with its own name.

    "default": {"LOCATION": "redis://a", "NAMESPACES": {"": "ql:", "mail": "ql-mail:"}}

is read as two aliases, "default" and "default/mail", with all else in common. So all that
knows an alias knows a namespace: clients, handles, workers, pages, metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from django_qless.conf import partitions
from django_qless.conf.setting_checks import Problem, listed, near_miss
from django_qless.core.cluster import hash_tag
from django_qless.core.globs import is_glob, pattern
from django_qless.core.options import TEXTS_OF_A_QUEUE

NAME = "NAMESPACES"

#: The key of the namespace of all queues that no other key names.
OTHERS = ""

SEPARATOR = "/"

#: The keys that name a server; one of them at most is given.
CONNECTION_KEYS = ("LOCATION", "CACHE", "EMBEDDED", "SENTINELS", "CLUSTER")

#: The keys that name a server, or say how to connect to it.
SERVER_KEYS = (
    *CONNECTION_KEYS,
    *("DB", "OPTIONS", "SERVICE_NAME", "SENTINEL_OPTIONS"),
    *("REPLICAS", "REPLICAS_TIMEOUT"),
)

#: The keys that a namespace may set itself; the rest is that of its alias.
OWN_KEYS = ("PREFIX", *SERVER_KEYS, "ENGINE", "PATIENCE", "WORKER_PATIENCE")

# As long as the column of the outbox that has it.
_MOST = 100

_HINT = (
    'For example {"": "{ql}:", "mail": "{ql-mail}:", "report.*": {"PREFIX": "{ql-r}:", '
    '"LOCATION": "redis://10.0.0.2:6379"}}.'
)


class Member(NamedTuple):
    """An alias as it is read: of the setting itself, or one of its namespaces."""

    alias: str
    """The alias of the setting."""
    key: str
    """The key in NAMESPACES."""
    options: Mapping[str, Any]


def members(value: Mapping[str, Mapping[str, Any]]) -> dict[str, Member]:
    """Return all aliases of QLESS, their namespaces included, by name.

    What is wrong with NAMESPACES is left out here: `namespace_problems` says it.
    """
    found = {alias: Member(alias, OTHERS, options) for alias, options in value.items()}
    for alias, options in value.items():
        routes = routes_of("", options)
        for key, own in _namespaces(options).items():
            name = name_of(alias, key)
            if name == alias or name not in found:
                found[name] = Member(alias, key, _merged(options, key, own, routes))
    return found


def name_of(alias: str, key: str) -> str:
    """Return the name of a namespace as an alias."""
    return f"{alias}{SEPARATOR}{key}" if key else alias


def routes_of(alias: str, options: Mapping[str, Any]) -> Routes | None:
    """Return what routes the queues of an alias; None if it is one namespace."""
    keys = list(_namespaces(options))
    counts = partitions.counts(options.get("QUEUES"))
    return Routes(alias, keys, counts) if keys else None


class Routes:
    """Which namespaces of an alias have a queue: one, or each of its partitions.

    A name wins over globs, a longer glob over a shorter one, and of equally long ones the
    first in the setting.
    """

    # Queues may be made by the thousand, one for each customer.
    MOST_KEPT = 10_000

    def __init__(self, alias: str, keys: list[str], counts: Mapping[str, int]) -> None:
        """`counts` are the queues that are split, and into how many partitions."""
        self.alias = alias
        #: The names of the partitions, by queue.
        self.partitions = {
            queue: tuple(name_of(alias, key) for key in partitions.keys(queue, number))
            for queue, number in counts.items()
        }
        #: The queue of each partition.
        self.split = {
            name: queue for queue, names in self.partitions.items() for name in names
        }
        keys = [key for key in keys if name_of(alias, key) not in self.split]
        #: The names of the namespaces: that of all other queues first, partitions last.
        self.names = [
            name_of(alias, key) for key in sorted(keys, key=lambda key: key != OTHERS)
        ]
        self.names += self.split
        self._exact = {key: name_of(alias, key) for key in keys if not is_glob(key)}
        globs = sorted(filter(is_glob, keys), key=lambda key: -len(key))
        self._globs = [(pattern(key), name_of(alias, key)) for key in globs]
        self._kept: dict[str, tuple[str, ...]] = {}

    def all_of(self, queue: str) -> tuple[str, ...]:
        """Return the names of the namespaces that have this queue."""
        found = self._kept.get(queue)
        if found is None:
            if len(self._kept) >= self.MOST_KEPT:
                self._kept.clear()
            found = self.partitions.get(queue) or (self.unsplit(queue),)
            self._kept[queue] = found
        return found

    def of(self, queue: str) -> str:
        """Return the name of the namespace of this queue, or of its first partition."""
        return self.all_of(queue)[0]

    def unsplit(self, queue: str) -> str:
        """Return the name of the namespace that has this queue unless it is split."""
        if queue in self._exact:
            return self._exact[queue]
        for glob, name in self._globs:
            if glob.fullmatch(queue):
                return name
        return self.alias

    def may_have(self, name: str, queue: str) -> bool:
        """Return whether a namespace has this queue or, of a glob, may have such queues."""
        if not is_glob(queue):
            return name in self.all_of(queue)
        only = self.split.get(name) or next(
            (key for key, each in self._exact.items() if each == name), ""
        )
        return not only or pattern(queue).fullmatch(only) is not None


def namespace_problems(
    options: Mapping[str, Any], alias: str, aliases: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield what is wrong with NAMESPACES of one of these aliases of QLESS."""
    given = options.get(NAME)
    if given is not None and not isinstance(given, Mapping):
        yield _problem(f" must be a dict, not {given!r}.", _HINT)
        return
    if given is not None:
        yield from _wrong_keys(given, options, alias, aliases)
    yield from _wrong_partitions(options, alias, aliases)
    test = options.get("TEST")
    if isinstance(test, Mapping) and NAME in test:
        yield _problem(
            " cannot be others in TEST.", "Remove it there: tests have the alias's own."
        )
    if len(_given(options)) == len(given or ()):
        yield from _shared(options)
        yield from _crossing(options, alias)


def _wrong_keys(
    given: Mapping[Any, Any],
    options: Mapping[str, Any],
    alias: str,
    aliases: Collection[str],
) -> Iterator[Problem]:
    """Yield what is wrong with what NAMESPACES has."""
    of_partitions = _partition_keys(options)
    for key, own in given.items():
        yield from _wrong(key, own, alias, aliases, of_partitions)
    if OTHERS not in given:
        yield _problem(
            ' has no key "": a queue that no other key names would be routed nowhere.',
            f'Add "": "{"{ql}:" if options.get("CLUSTER") else "ql:"}", with the prefix that '
            "this alias has had, for all other queues.",
        )
    elif "PREFIX" in options:
        yield _problem(
            ' and PREFIX both say the prefix of queues that no key names: "" does.',
            "Remove PREFIX.",
        )


def _wrong_partitions(
    options: Mapping[str, Any], alias: str, aliases: Collection[str]
) -> Iterator[Problem]:
    """Yield the partitions that could not be called as they are."""
    for queue, number in partitions.counts(options.get("QUEUES")).items():
        name = name_of(alias, partitions.keys(queue, number)[-1])
        if len(name) > _MOST:
            yield Problem(
                f"QUEUES: partitions of queue {queue!r:.120}: the namespace {name!r:.120} "
                f"has more than {_MOST} characters.",
                "Give the queue a shorter name.",
                "E064",
            )
        for each in partitions.keys(queue, number):
            if name_of(alias, each) in aliases:
                yield Problem(
                    f"QUEUES: a partition of queue {queue!r} is called "
                    f"{name_of(alias, each)!r} as an alias, and QLESS has one of this "
                    "name.",
                    "Give that another name.",
                    "E064",
                )


def _problem(text: str, hint: str, number: str = "E047") -> Problem:
    return Problem(f"{NAME}{text}", hint, number)


def _given(options: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the valid entries of NAMESPACES, each as a dict; none without the key."""
    given = options.get(NAME)
    if not isinstance(given, Mapping):
        return {}
    found = {}
    for key, own in given.items():
        own = {"PREFIX": own} if isinstance(own, str) else own
        if isinstance(key, str) and isinstance(own, Mapping):
            found[key] = own
    return found


def _namespaces(options: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the namespaces of an alias, each as a dict, partitions last.

    None if it is one namespace. NAMESPACES may say more of a partition.
    """
    counts = partitions.counts(options.get("QUEUES"))
    given = _given(options)
    found = given or ({OTHERS: {}} if counts else {})
    routes = Routes("", list(found), counts)
    for queue, number in counts.items():
        home = found.get(routes.unsplit(queue).removeprefix(SEPARATOR), {})
        text = str(home.get("PREFIX", options.get("PREFIX", "ql:")))
        for index, key in enumerate(partitions.keys(queue, number)):
            prefix = partitions.prefix(text, queue, index)
            own = {"PREFIX": prefix, **given.pop(key, {})}
            found[key] = _over(home, own)
    return found


def _partition_keys(options: Mapping[str, Any]) -> set[str]:
    """Return the keys that the partitions of all queues have in NAMESPACES."""
    counts = partitions.counts(options.get("QUEUES")).items()
    return {key for queue, number in counts for key in partitions.keys(queue, number)}


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with others beneath; who names a server says all of it."""
    names_server = any(name in own for name in CONNECTION_KEYS)
    left_out = SERVER_KEYS if names_server else ()
    return {name: base[name] for name in base if name not in left_out} | dict(own)


def _merged(
    options: Mapping[str, Any],
    key: str,
    own: Mapping[str, Any],
    routes: Routes | None,
) -> dict[str, Any]:
    """Return the options of a namespace: its own, else those of its alias."""
    merged = _over(options, own)
    if key:
        merged.pop(NAME, None)
    queues = options.get("QUEUES")
    if isinstance(queues, Mapping) and routes is not None:
        merged["QUEUES"] = {
            queue: value
            for queue, value in queues.items()
            if not isinstance(queue, str) or name_of("", key) in routes.all_of(queue)
        }
    test = options.get("TEST")
    if key and isinstance(test, Mapping) and isinstance(test.get("PREFIX"), str):
        prefix = f"{test['PREFIX']}{own.get('PREFIX', '')}"
        merged["TEST"] = {**test, "PREFIX": prefix}
    return merged


def _wrong(
    key: Any,
    own: Any,
    alias: str,
    aliases: Collection[str],
    of_partitions: Collection[str],
) -> Iterator[Problem]:
    """Yield what is wrong with one namespace by itself."""
    if not isinstance(key, str) or len(name_of(alias, key)) > _MOST:
        yield _problem(
            f": {key!r:.120} must be the name of a queue or a glob with * and ?, of at "
            f"most {_MOST - len(alias) - 1} characters.",
            _HINT,
        )
        return
    if key and name_of(alias, key) in aliases:
        yield _problem(
            f": {key!r} is called {name_of(alias, key)!r} as an alias, and QLESS has one "
            "of this name.",
            "Give that another name.",
        )
    if isinstance(own, str):
        return
    if not isinstance(own, Mapping):
        yield _problem(f": {key!r} must be a prefix, or a dict with PREFIX.", _HINT)
        return
    if "PREFIX" not in own and key not in of_partitions:
        yield _problem(f": {key!r} has no PREFIX.", _HINT)
    for name in own:
        if name not in OWN_KEYS:
            hint = near_miss(str(name).upper(), OWN_KEYS) or listed(OWN_KEYS)
            yield _problem(f": {key!r} cannot set {name!r}.", hint)


def _shared(options: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the namespaces that would be one, or be on one node of a cluster."""
    prefixes: dict[tuple[str, str], str] = {}
    tags: dict[tuple[str, str], str] = {}
    for key, own in _namespaces(options).items():
        merged = _merged(options, key, own, None)
        prefix = str(merged.get("PREFIX"))
        server = repr([(name, merged.get(name)) for name in (*CONNECTION_KEYS, "DB")])
        first = prefixes.setdefault((server, prefix), key)
        if first != key:
            yield _problem(
                f": {first!r} and {key!r} have one prefix on one server, {prefix!r}.",
                "Give one of them another prefix; queues that belong together can have "
                "names that one glob matches.",
                "E048",
            )
            continue
        tag = hash_tag(prefix) if merged.get("CLUSTER") else ""
        first = tags.setdefault((server, tag), key) if tag else key
        if first != key:
            yield _problem(
                f": {first!r} and {key!r} have one hash tag, {{{tag}}}, so that they "
                "are always on one node.",
                f'Write another one between the braces: "{{{tag}-2}}:".',
                "E048",
            )


def _crossing(options: Mapping[str, Any], alias: str) -> Iterator[Problem]:
    """Yield options that would send jobs into another namespace."""
    routes = routes_of(alias, options)
    queues, config = options.get("QUEUES"), options.get("CONFIG")
    for queue, name, other in queues_named(queues, config):
        if routes is None or not isinstance(other, str):
            continue
        if routes.all_of(queue) != routes.all_of(other):
            is_split = {queue, other} & routes.partitions.keys()
            yield Problem(
                f"{name} of queue {queue!r} is {other!r}: NAMESPACES routes these queues "
                f"to {routes.of(queue)!r} and {routes.of(other)!r}, and no job goes from "
                "one namespace to another.",
                "A partition has one queue: leave its failed jobs in it."
                if is_split
                else "Name a queue of the same namespace.",
                "E049",
            )


def queues_named(queues: Any, config: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield queues, options of theirs that name another queue, and that queue.

    They are in QUEUES, and in CONFIG behind the name of the queue.
    """
    for option in TEXTS_OF_A_QUEUE:
        name = option.replace("-", "_")
        for queue, own in queues.items() if isinstance(queues, Mapping) else ():
            if isinstance(queue, str) and isinstance(own, Mapping) and name in own:
                yield queue, name, own[name]
        for written, other in config.items() if isinstance(config, Mapping) else ():
            if isinstance(written, str) and written.endswith(f"-{option}"):
                yield written.removesuffix(f"-{option}"), option, other
