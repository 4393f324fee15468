"""The order of jobs that depend on each other: each behind those that it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Circle(Exception):
    """Some things wait for each other: `path` begins and ends with the same one."""

    def __init__(self, path: Sequence[object]) -> None:
        super().__init__(path)
        self.path = path


def in_order(things: Iterable[T], waits_for: Callable[[T], Iterable[T]]) -> list[T]:
    """Return the things, each behind those that it waits for, else in the order given.

    Raises Circle if that cannot be.
    """
    ordered: dict[T, None] = {}
    for thing in things:
        if thing not in ordered:
            _visit(thing, waits_for, ordered)
    return list(ordered)


def _visit(
    thing: T, waits_for: Callable[[T], Iterable[T]], ordered: dict[T, None]
) -> None:
    # Chains are longer than Python's stack is deep.
    trail = {thing: iter(waits_for(thing))}
    while trail:
        current, rest = next(reversed(trail.items()))
        for other in rest:
            if other in trail:
                path = list(trail)
                raise Circle([*path[path.index(other) :], other])
            if other not in ordered:
                trail[other] = iter(waits_for(other))
                break
        else:
            del trail[current]
            ordered[current] = None
