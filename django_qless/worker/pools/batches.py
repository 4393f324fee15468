"""Batches: jobs that came with one answer of the server, announced as one.

A batch finishes when each of its jobs has ended, was handed back or was lost.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_qless.job_types.current import CurrentJob
    from django_qless.worker.pools.buffer import Item

    #: Announces that a batch of these jobs has `started` or `finished`.
    Announce = Callable[..., None]


class Batch:
    """The jobs of one batch, and how many of them are left."""

    __slots__ = ("jobs", "left", "ran")

    def __init__(self, jobs: Sequence[CurrentJob]) -> None:
        self.jobs = jobs
        self.left = len(jobs)
        self.ran = 0


class Batches:
    """The batches of a child that are not finished.

    A child has them only if someone listens: otherwise they cost nothing.
    """

    def __init__(
        self,
        current: Callable[..., CurrentJob],
        announce: Announce,
        later: Callable[..., object] | None = None,
    ) -> None:
        """`current` makes the job that is announced of a reserved one.

        `later` calls a function elsewhere, if the end of a batch is not to be announced
        by the thread that ends its last job.
        """
        self._current = current
        self._announce = announce
        self._later = later or _now
        self._of: dict[str, Batch] = {}
        self._lock = threading.Lock()

    def begin(self, items: Sequence[Item]) -> None:
        """Announce a batch, before the first of its jobs is run."""
        if not items:
            return
        batch = Batch([self._current(item.job) for item in items])
        with self._lock:
            self._of.update((item.job.token, batch) for item in items)
        self._announce("started", batch.jobs)

    def end(self, token: str, *, ran: bool) -> None:
        """Note that a job has ended, or will not be run; announce the last of a batch."""
        with self._lock:
            batch = self._of.pop(token, None)
            if batch is None:
                return
            batch.left -= 1
            batch.ran += ran
            is_last = not batch.left
        if is_last:
            self._later(self._finish, batch)

    def _finish(self, batch: Batch) -> None:
        self._announce("finished", batch.jobs, ran=batch.ran)


def _now(function: Callable[[Batch], None], batch: Batch) -> None:
    function(batch)
