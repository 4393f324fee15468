"""The status of a namespace as JSON values and tables: queues, failures, workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_qless.core.commands.pages import MOST_QUEUES
from django_qless.management.output import format_duration, table

if TYPE_CHECKING:
    from django_qless.core import Client

COUNTS = ("waiting", "running", "stalled", "scheduled", "depends", "recurring")

TODAY = {"retried": "retried attempts today", "retries": "locks lost today"}
"""Counters of the day, and their headings."""


@dataclass(frozen=True, slots=True)
class NamespaceStatus:
    """The queues, failures and workers of a namespace at one moment."""

    queues: list[dict[str, Any]]
    """The counts of each queue by state, `paused`, and `lag`: the seconds that the oldest
    ready job has waited; `today`: attempts retried, locks lost (`retries`) and failures
    since midnight UTC."""
    failures: dict[str, int]
    """The number of failed jobs in each group."""
    workers: list[dict[str, Any]]
    """The name, number of jobs, last heartbeat and `info` of each worker."""
    now: float
    """The time of the status, by the server's clock."""

    @classmethod
    def read(cls, client: Client) -> NamespaceStatus:
        """Ask the server for the status."""
        counts = client.queues()
        names = [queue.name for queue in counts]
        lags = client.lag(names) if names else []
        now = float(client.meta()["now"])
        today = client.stats_counters(now, names) if names else []
        # A queue's own count knows of intervals only, and of none that is paused.
        recurring = [
            number
            for start in range(0, len(names), MOST_QUEUES)
            for number in client.recurring_of(names[start : start + MOST_QUEUES])
        ]
        return cls(
            queues=[
                {
                    **queue._asdict(),
                    "pause": queue.pause._asdict() if queue.pause else None,
                    "recurring": number,
                    "lag": lag,
                    "today": counters._asdict(),
                }
                for queue, lag, number, counters in zip(
                    counts, lags, recurring, today, strict=True
                )
            ],
            failures=client.failed(),
            workers=[worker._asdict() for worker in client.workers()],
            now=now,
        )

    def as_data(self) -> dict[str, Any]:
        """Return the status as JSON values."""
        return {
            "queues": self.queues,
            "failures": self.failures,
            "workers": self.workers,
        }

    def as_text(self) -> str:
        """Return the status as tables."""
        failures = [[str(count), group] for group, count in self.failures.items()]
        workers = [
            [
                worker["name"],
                str(worker["jobs"]),
                str(worker["stalled"]),
                format_duration(max(0.0, self.now - worker["beat"])),
                *_pool_and_queues(worker["info"] or {}),
            ]
            for worker in self.workers
        ]
        return "\n\n".join(
            [
                self.queue_table(),
                table(["failed", "group"], failures, "no failures"),
                table(
                    ["worker", "jobs", "stalled", "last beat", "pool", "queues"],
                    workers,
                    "no workers",
                ),
            ]
        )

    def queue_table(self) -> str:
        """Return the queues as a table."""
        queues = [
            [
                queue["name"] + _paused(queue),
                *(str(queue[name]) for name in COUNTS),
                format_duration(queue["lag"]),
                *(str(queue["today"][name]) for name in TODAY),
            ]
            for queue in self.queues
        ]
        return table(["queue", *COUNTS, "lag", *TODAY.values()], queues, "no queues")


def _paused(queue: dict[str, Any]) -> str:
    """Return a remark that a queue is paused, and why; "" if it is not."""
    if not queue["paused"]:
        return ""
    reason = queue["pause"]["reason"] if queue["pause"] else ""
    return f" (paused: {reason})" if reason else " (paused)"


def _pool_and_queues(info: dict[str, Any]) -> tuple[str, str]:
    """Return the pool and the queues in a worker's information about itself."""
    pool = f"{info.get('pool', '')} {info.get('concurrency', '')}".strip()
    return pool, " ".join(info.get("queues") or ())
