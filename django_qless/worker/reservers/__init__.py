"""Which queues does a worker ask for its next jobs, and in what order?

    ordered.py        the first as long as it has jobs
    round_robin.py    each in turn
    shuffled.py       in turn, in an order of each process's own
    lottery.py        drawn by weight
    priority.py       by weight
    lag.py            who has waited longest

`base.py` says what they have in common; weights and lags stand in `queue_book.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.worker.queue_book import QueueBook
from django_qless.worker.reservers.base import Reserver
from django_qless.worker.reservers.lag import Lag
from django_qless.worker.reservers.lottery import Lottery, PlainLottery
from django_qless.worker.reservers.ordered import Ordered
from django_qless.worker.reservers.priority import HighestPriorityFirst
from django_qless.worker.reservers.round_robin import RoundRobin
from django_qless.worker.reservers.shuffled import Shuffled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Client

__all__ = ["BOOK_PATIENCE", "RESERVERS", "Reserver", "new_reserver"]

BOOK_PATIENCE = 0.5
"""Seconds for which a look at the queues is tried; the last view serves as well."""

RESERVERS: dict[str, type[Reserver]] = {
    known.name: known
    for known in (
        Ordered,
        RoundRobin,
        Shuffled,
        Lottery,
        PlainLottery,
        HighestPriorityFirst,
        Lag,
    )
}


def new_reserver(
    name: str, queues: Sequence[str], exclude: Sequence[str], client: Client
) -> Reserver:
    """Return a new reserver of this name for one process.

    `client` is for its book: it makes no call, nor a connection, before one is needed.
    """
    return RESERVERS[name](queues, exclude, QueueBook(client, queues))
