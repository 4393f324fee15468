"""The status of a namespace as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_qless.core.states import QUEUE_STATES
from django_qless.management.output import table
from django_qless.operations.durations import duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core.commands.queues import QueueCounts
    from django_qless.operations.status import NamespaceStatus, QueueStatus

TODAY = {"retried": "retried attempts today", "retries": "locks lost today"}
"""Counters of the day, and their headings."""


def status_text(status: NamespaceStatus) -> str:
    """Return the status as tables."""
    dead = [[str(count), queue] for queue, count in status.dead.items()]
    failures = [[str(count), group] for group, count in status.failures.items()]
    workers = [
        [
            worker.name,
            str(worker.jobs),
            str(worker.stalled),
            duration_text(max(0.0, status.now - worker.beat)),
            *_pool_and_queues(worker.info or {}),
        ]
        for worker in status.workers
    ]
    head = ["worker", "jobs", "stalled", "last heartbeat", "pool", "queues"]
    return "\n\n".join(
        [
            queue_table(status.queues),
            table(["failed", "group"], failures, "no failures"),
            *([table(["dead", "entities of queue"], dead)] if dead else []),
            table(head, workers, "no workers"),
        ]
    )


def queue_table(queues: Sequence[QueueStatus]) -> str:
    """Return queues as a table."""
    rows = [
        [
            counts.name + _paused(counts),
            *(_number(counts, state) for state in QUEUE_STATES),
            duration_text(lag),
            *(str(getattr(today, name)) for name in TODAY),
        ]
        for counts, lag, today in queues
    ]
    return table(["queue", *QUEUE_STATES, "lag", *TODAY.values()], rows, "no queues")


def _number(counts: QueueCounts, state: str) -> str:
    """Return the number of jobs in a state, and how many of them limits hold back."""
    text = str(getattr(counts, state))
    if state == "waiting" and counts.held_back:
        text += f" ({counts.held_back} held back)"
    return text


def _paused(counts: QueueCounts) -> str:
    """Return a remark that a queue is paused, and why; "" if it is not."""
    if not counts.paused:
        return ""
    reason = counts.pause.reason if counts.pause else ""
    return f" (paused: {reason})" if reason else " (paused)"


def _pool_and_queues(info: dict[str, Any]) -> tuple[str, str]:
    """Return the pool and the queues in a worker's information about itself."""
    pool = f"{info.get('pool', '')} {info.get('concurrency', '')}".strip()
    return pool, " ".join(info.get("queues") or ())
