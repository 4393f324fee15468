"""How many jobs run at once, and how they are kept apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from django_qless.worker.pools.prefork import Prefork

if TYPE_CHECKING:
    from django_qless.worker.worker import Worker


class Pool(Protocol):
    """Runs a worker's jobs; returns when the worker has been told to stop and has.

    What the worker is told stands in its `shutdown`; what it runs and how it settles is
    the business of `execution` and of the worker's reserver.
    """

    def __init__(self, worker: Worker) -> None: ...

    def run(self) -> bool:
        """Run jobs to the end; return whether all that was held has been settled."""


POOLS: dict[str, type[Pool]] = {"prefork": Prefork}
