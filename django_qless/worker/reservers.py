"""Which queues does a worker ask for its next jobs, and in what order?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reserver(Protocol):
    """A strategy; each process of a pool has its own.

    The server takes from the first queue of the order as long as it has jobs, then
    from the second, and expands globs by itself, so queues that appear later are found.
    """

    def __init__(self, queues: Sequence[str]) -> None: ...

    def order(self) -> Sequence[str]:
        """Return queue names and globs in the order to ask them this time."""


class Ordered:
    """Serves the queues in the order given: the second only when the first is empty."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = tuple(queues)

    def order(self) -> Sequence[str]:
        """Return the queues as they were given."""
        return self.queues


RESERVERS: dict[str, type[Reserver]] = {"ordered": Ordered}
