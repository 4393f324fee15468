"""The queue that has kept its oldest job waiting longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.worker.queue_book import FRESH
from django_qless.worker.reservers.base import Reserver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Reserved

# What was taken has changed the lags. So often they are looked up again, in seconds, and
# at most for this part of the time: for longer jobs each choice is exact.
SOON, SHARE = 0.02, 0.05


class Lag(Reserver):
    """Serves the queue whose oldest ready job has waited longest.

    Queues are kept equally late, whatever comes into them.
    """

    name = "lag"
    summary = "the queue whose oldest ready job has waited longest"

    _has_taken = False

    def order(self) -> Sequence[str]:
        """Return the queues by falling lag; equal ones as they were given."""
        book = self.book
        if book is None:
            return self.question(self.named)
        age = max(SOON, book.cost / SHARE) if self._has_taken else FRESH
        if book.refresh(min(FRESH, age)):
            self._has_taken = False
        queues = self.candidates()
        return self.question(sorted(queues, key=book.lag, reverse=True))

    def took(self, asked: Sequence[str], jobs: Sequence[Reserved]) -> None:
        """Note that the lags have changed if a queue gave jobs."""
        self._has_taken = self._has_taken or bool(jobs)
