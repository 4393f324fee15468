"""A row of the report: one kind of fault, made a number of times, in one pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

    Act = Callable[["Stage", "Tally", int], None]

ALL_POOLS = ("prefork", "fork", "threads", "coroutines")

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of a server that has on disk what it has acknowledged."""


@dataclass(frozen=True)
class Row:
    """What is done, how often, by which pools, on what server."""

    name: str
    act: Act
    times: int
    """How often in the long run, …"""
    quick: int
    """… and among the other tests; 0: not there."""
    pools: tuple[str, ...] = ALL_POOLS
    server: tuple[str, ...] = ()
    """Options of the server."""

    @property
    def words(self) -> str:
        """What the row does, for people: the first line of its docstring."""
        return (self.act.__doc__ or "").strip().splitlines()[0].rstrip(".")


ROWS: dict[str, Row] = {}


def row(
    *,
    times: int,
    quick: int = 0,
    pools: tuple[str, ...] = ALL_POOLS,
    server: tuple[str, ...] = (),
) -> Callable[[Act], Act]:
    """Make a row of a function of a stage, a tally, and the number of times."""

    def register(act: Act) -> Act:
        name = act.__name__.replace("_", "-")
        ROWS[name] = Row(name, act, times, quick, pools, server)
        return act

    return register
