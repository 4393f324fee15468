"""The queues in the order given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.worker.reservers.base import Reserver

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ordered(Reserver):
    """Serves the second queue only when the first is empty.

    Globs stay where they were given: the server expands them, and nothing is looked up.
    """

    name = "ordered"
    summary = "the first queue given as long as it has jobs, then the second, …"
    looks_up = False

    def order(self) -> Sequence[str]:
        """Return the queues as they were given."""
        return self.queues
