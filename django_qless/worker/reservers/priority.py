"""The queue with the greatest weight first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.worker.reservers.base import Reserver

if TYPE_CHECKING:
    from collections.abc import Sequence


class HighestPriorityFirst(Reserver):
    """Serves the queue of most weight as long as it has jobs, then the next.

    Like `ordered`, but the order is in the options, where operators can change it.
    """

    name = "highest-priority-first"
    summary = "the queue of the greatest weight as long as it has jobs"

    def order(self) -> Sequence[str]:
        """Return the queues by falling weight; equal ones as they were given."""
        queues, book = self.candidates(), self.book
        if book is not None:
            queues = sorted(queues, key=book.weight, reverse=True)
        return self.question(queues)
