"""The kinds of pools: how many jobs run at once in a process, and who runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from django_qless.worker.pools.child import Child
from django_qless.worker.pools.coroutines import coroutines
from django_qless.worker.pools.fork import Keeper
from django_qless.worker.pools.threads import threads

if TYPE_CHECKING:
    from django_qless.worker.pools.board import Board
    from django_qless.worker.worker import Worker


class Kind(NamedTuple):
    """What the children of a pool are."""

    #: For people, in --help.
    words: str
    #: Be a child, with this board and doorbell, until told to stop.
    live: Callable[[Worker, Board, int], None]
    #: Whether each child runs one job at a time, so that there are many of them.
    many: bool
    #: Whether a child is killed when the lock on its running job is lost; others are
    #: told to drop the job.
    kills: bool


def prefork(worker: Worker, board: Board, doorbell: int) -> None:
    """Be a long-lived process that runs one job at a time."""
    Child(worker, board, doorbell).run()


def fork(worker: Worker, board: Board, doorbell: int) -> None:
    """Be a keeper, which has each job run by a process of its own."""
    Keeper(worker, board, doorbell).run()


KINDS = {
    "prefork": Kind("long-lived processes", prefork, many=True, kills=True),
    "fork": Kind("one process per job", fork, many=True, kills=True),
    "threads": Kind("threads of one process", threads, many=False, kills=False),
    "coroutines": Kind(
        "coroutines in the event loop of one process",
        coroutines,
        many=False,
        kills=False,
    ),
}
