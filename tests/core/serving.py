"""Which jobs a worker of names and globs gets: a model apart from the Lua core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase


def is_glob(name: str) -> bool:
    return "*" in name or "?" in name


def expanded(
    asked: Iterable[str], exclude: Sequence[str], known: Iterable[str]
) -> list[str]:
    """Return the queues in the order in which they are served."""
    found: dict[str, None] = {}
    for name in asked:
        if is_glob(name):
            found.update((k, None) for k in sorted(known) if fnmatchcase(k, name))
        else:
            found[name] = None
    return [
        name for name in found if not any(fnmatchcase(name, glob) for glob in exclude)
    ]


def served(
    queues: Sequence[str], waiting: Mapping[str, int], count: int, *, turns: bool
) -> list[str]:
    """Return from which of the queues so many jobs are taken, one after the other."""
    left, taken = dict(waiting), list[str]()

    def take(queue: str, number: int) -> int:
        number = min(number, left.get(queue, 0), count - len(taken))
        left[queue] = left.get(queue, 0) - number
        taken.extend([queue] * number)
        return number

    if not turns:
        for queue in queues:
            take(queue, count)
        return taken
    ring = list(queues)
    while ring and len(taken) < count:
        part = max(1, (count - len(taken)) // len(ring))
        ring = [queue for queue in ring if take(queue, part) == part]
    return taken
