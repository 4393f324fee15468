"""The setting QLESS_ROUTES: which alias has a queue, by its name or a glob.

    QLESS_ROUTES = {"mail": "mail", "report.*": "reports"}

The first match wins. A queue that nothing matches is in the alias at hand: `default` for a
new job, the job's own for one that moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from django_qless import conf
from django_qless.conf import validation
from django_qless.conf.setting_checks import Problem
from django_qless.conf.validation import ROUTES
from django_qless.core.globs import pattern
from django_qless.core.options import TEXTS_OF_A_QUEUE
from django_qless.exceptions import InvalidOption

REMEDY = (
    "Nothing goes from one alias to another: enqueue the second job at the end of the first "
    "one, or route both queues to one alias in QLESS_ROUTES."
)


class Routed(Protocol):
    """What may name an alias, and has a queue: the options of a job."""

    @property
    def alias(self) -> str | None:
        """The alias, if one is given."""

    @property
    def queue(self) -> str:
        """The queue."""


# Queues may be made by the thousand, one for each customer.
_MOST_CACHED = 10_000


def route(queue: str) -> str | None:
    """Return the alias that QLESS_ROUTES names for a queue, or None without a match.

    A glob counts as the name of a queue: it has the alias of the first entry that matches its
    text.
    """
    if queue in _cache:
        return _cache[queue]
    matches = (
        alias for glob, alias in conf.routes().items() if pattern(glob).fullmatch(queue)
    )
    if len(_cache) >= _MOST_CACHED:
        _cache.clear()
    found = _cache[queue] = next(matches, None)
    return found


def alias_of(queue: str, alias: str | None = None) -> str:
    """Return the alias of a queue: the one given, else its route, else the default one."""
    return alias or route(queue) or conf.DEFAULT_ALIAS


def alias_for(options: Routed) -> str:
    """Return the alias of jobs with these options."""
    return options.alias or route(options.queue) or conf.DEFAULT_ALIAS


def check_stays(whose: str, alias: str, queue: str) -> None:
    """Raise InvalidOption if a queue is routed to another alias than this one.

    `whose` says what would go there.
    """
    other = route(queue)
    if other not in (None, alias):
        raise InvalidOption(
            f"{whose}: it is in alias {alias!r}, and QLESS_ROUTES has the queue {queue!r} "
            f"in alias {other!r}. {REMEDY}"
        )


def check_option(alias: str, option: str, value: str) -> None:
    """Raise InvalidOption for an option of the core that names a queue of another alias."""
    for queue, name, target in _queues_named({}, {option: value}):
        check_stays(f"{name} of queue {queue!r}", alias, str(target))


def route_problems() -> Iterator[Problem]:
    """Yield what is wrong with QLESS_ROUTES, and with queues declared in another alias."""
    malformed = list(validation.validate_routes())
    yield from malformed
    if malformed:
        return
    known = conf.alias_names()
    globs: list[str] = []
    for glob, alias in conf.routes().items():
        if alias not in known:
            yield Problem(
                f"{ROUTES}: {glob!r} leads to alias {alias!r}, which is not in QLESS.",
                f"There are: {', '.join(known)}.",
                "E047",
            )
        hiding = next((each for each in globs if _covers(each, glob)), None)
        if hiding is not None:
            yield Problem(
                f"{ROUTES}: {glob!r} has no effect behind {hiding!r}, which matches all of its "
                "queues.",
                "The first match wins: write the narrower pattern first.",
                "E048",
            )
        globs.append(glob)
    for alias in known:
        yield from _declared_elsewhere(alias)


def _declared_elsewhere(alias: str) -> Iterator[Problem]:
    """Yield the queues in the settings of an alias that are routed to another one."""
    options = conf.raw_setting()[alias]
    queues, config = options.get("QUEUES"), options.get("CONFIG")
    for queue in queues if isinstance(queues, Mapping) else ():
        if isinstance(queue, str) and (other := route(queue)) not in (None, alias):
            yield Problem(
                f"QLESS[{alias!r}]: QUEUES has {queue!r}, which {ROUTES} has in alias "
                f"{other!r}.",
                f"Move its options to QUEUES of {other!r}.",
                "E049",
            )
    for queue, option, target in _queues_named(queues, config):
        other = route(target) if isinstance(target, str) else None
        if other not in (None, alias):
            yield Problem(
                f"QLESS[{alias!r}]: {option} of queue {queue!r} is {target!r}, which {ROUTES} "
                f"has in alias {other!r}.",
                "A job stays in its alias: name a queue of the same one.",
                "E049",
            )


def _queues_named(queues: Any, config: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield queues, options of theirs that name another queue, and that queue."""
    for option in TEXTS_OF_A_QUEUE:
        name = option.replace("-", "_")
        for queue, own in queues.items() if isinstance(queues, Mapping) else ():
            if isinstance(own, Mapping) and name in own:
                yield queue, name, own[name]
        for key, target in config.items() if isinstance(config, Mapping) else ():
            if isinstance(key, str) and key.endswith(f"-{option}"):
                yield key.removesuffix(f"-{option}"), option, target


def _covers(glob: str, other: str) -> bool:
    """Return whether a glob matches every queue that another one matches."""
    regex = re.escape(glob).replace(r"\*", ".*").replace(r"\?", "[^*]")
    return re.fullmatch(regex, other, re.DOTALL) is not None


_cache: dict[str, str | None] = {}
conf.on_change(_cache.clear)
