"""The partitions of a queue that is split, each with its figures, and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_qless.admin.error_texts import error_text
from django_qless.admin.links import Links
from django_qless.conf import routing
from django_qless.conf.connections import connections
from django_qless.conf.each import ask_each
from django_qless.core import QlessError
from django_qless.operations.partitioned import sum_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.admin.views import View
    from django_qless.core import Client
    from django_qless.core.commands.queues import QueueCounts


@dataclass(frozen=True)
class PartitionRow:
    """A partition as a row of the table."""

    name: str
    url: str
    is_current: bool
    counts: QueueCounts | None = None
    """None if its server did not answer."""
    failed: int = 0
    lag: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class PartitionTable:
    """The partitions of a queue, and the queue as one: sums, and the oldest lag."""

    rows: Sequence[PartitionRow]
    counts: QueueCounts | None
    failed: int
    lag: float


def partition_table(view: View) -> PartitionTable | None:
    """Return the partitions of the queue of a page; None if it is not split.

    Three calls to each, all partitions at the same time.
    """
    names = routing.partitions_of(view.alias, view.name)
    if view.alias not in names:
        return None

    def ask(client: Client) -> dict[str, Any]:
        [failed], [lag] = client.failed_of([view.name]), client.lag([view.name])
        counts = client.queue_counts(view.name)
        return {"counts": counts, "failed": failed, "lag": lag}

    rows = []
    answers = ask_each(names, ask, connections.impatient)
    for name, found in zip(names, answers, strict=True):
        url = Links(view.links.site, name).url("queue_change", view.name)
        if isinstance(found, QlessError):
            found = {"problem": error_text(found)}
        rows.append(PartitionRow(name, url, name == view.alias, **found))
    known = [row.counts for row in rows if row.counts is not None]
    return PartitionTable(
        rows,
        sum_of(known) if known else None,
        sum(row.failed for row in rows),
        max(row.lag for row in rows),
    )
