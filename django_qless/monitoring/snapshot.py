"""The figures of an alias at one moment, read once for all who ask within a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from django_qless.conf.connections import connections
from django_qless.core.exceptions import NotPermitted, QlessError
from django_qless.operations.status import NamespaceStatus
from django_qless.outbox.waiting import waiting

if TYPE_CHECKING:
    from django_qless.core import Client
    from django_qless.core.commands.entities import EntityCounts
    from django_qless.core.commands.statistics import DayStats
    from django_qless.core.listings import Throughput

MAX_AGE = 1.0
"""Seconds for which a snapshot serves all who ask."""

MOST_QUEUES = 100
"""Queues with figures of their own: the first ones that were seen. The others are added
up, so that a project with a queue for each customer does not flood its monitoring."""

SPAN = 5
"""The whole minutes over which the throughput is averaged."""


@dataclass(frozen=True)
class Snapshot:
    """The figures of an alias at one moment."""

    status: NamespaceStatus
    failed_of: list[int]
    """Failed jobs of each of the first MOST_QUEUES queues, in their order."""
    throughput: list[Throughput]
    """Of the same queues, over the last SPAN whole minutes."""
    total: Throughput
    """Of the whole namespace."""
    today: list[DayStats]
    """The statistics since midnight UTC, of the same queues."""
    entities: list[EntityCounts]
    """Of the same queues, those that have entities."""
    completed: int
    """Completed jobs that are kept."""
    config: dict[str, Any]
    server: dict[str, str | int]
    """The server's INFO, empty if its user may not ask."""
    seconds: float = field(compare=False)
    """How long it took to read all this."""

    @classmethod
    def read(cls, client: Client, status: NamespaceStatus) -> Snapshot:
        """Ask the server; two calls for each of the first MOST_QUEUES queues at most."""
        began = time.monotonic()
        names = [queue.counts.name for queue in status.queues[:MOST_QUEUES]]
        last = int(status.now // 60) - 1
        span = (last - SPAN + 1, last, SPAN)
        server: dict[str, str | int] = {}
        with suppress(NotPermitted):
            server = dict(client.server_info())
        return cls(
            status=status,
            failed_of=client.failed_of(names) if names else [],
            throughput=[client.throughput(name, *span) for name in names],
            total=client.throughput(None, *span),
            today=[client.stats(name, status.now) for name in names],
            entities=[each for each in status.entities if each.queue in set(names)],
            completed=client.completed_count(),
            config=client.config_all(),
            server=server,
            seconds=time.monotonic() - began,
        )


class Shared:
    """A value by alias that is read once for all who ask within MAX_AGE seconds.

    Who asks while it is being read waits for it. An error is shared as well.
    """

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read
        self._locks: dict[str, Lock] = {}
        self._kept: dict[str, tuple[float, Any]] = {}

    def get(self, alias: str) -> Any:
        """Return the value of an alias. Raises QlessError within seconds."""
        with self._locks.setdefault(alias, Lock()):
            at, found = self._kept.get(alias, (float("-inf"), None))
            if time.monotonic() - at >= MAX_AGE:
                try:
                    found = self._read(alias)
                except QlessError as error:
                    found = error
                self._kept[alias] = time.monotonic(), found
        if isinstance(found, QlessError):
            raise found.with_traceback(None)
        return found

    def forget(self) -> None:
        """Forget what was read: the next use reads it again."""
        self._kept.clear()


def with_status(read: Callable[[Client, NamespaceStatus], Any]) -> Shared:
    """Return values that are made of the status that is shared, and of further calls."""
    # (Who asks for metrics, for the status and for lags within a second waits for one.)
    return Shared(lambda alias: read(connections.impatient(alias), statuses.get(alias)))


statuses = Shared(lambda alias: NamespaceStatus.read(connections.impatient(alias)))
snapshots = with_status(Snapshot.read)
outboxes = Shared(lambda alias: [*waiting(alias)])
