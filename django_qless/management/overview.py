"""What an operator wants to know first: queues, failures, workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_qless.core import Client

COUNTS = ("waiting", "running", "stalled", "scheduled", "depends", "recurring")


@dataclass(frozen=True, slots=True)
class Overview:
    """A namespace at one moment, as plain data."""

    queues: list[dict[str, Any]]
    """The counts of each queue by state, `paused`, and `lag`: for how many seconds the
    oldest job that could run has been waiting."""
    failures: dict[str, int]
    """The number of failed jobs in each group."""
    workers: list[dict[str, Any]]
    """Each worker's name, its number of jobs, its last beat, and what it says of itself.
    """

    @classmethod
    def of(cls, client: Client) -> Overview:
        """Ask the server."""
        counts = client.queues()
        lags = client.lag([queue.name for queue in counts]) if counts else []
        return cls(
            queues=[
                {**queue._asdict(), "lag": lag}
                for queue, lag in zip(counts, lags, strict=True)
            ],
            failures=client.failed(),
            workers=[worker._asdict() for worker in client.workers()],
        )

    def as_data(self) -> dict[str, Any]:
        """Return what JSON can carry."""
        return {
            "queues": self.queues,
            "failures": self.failures,
            "workers": self.workers,
        }

    def as_text(self) -> str:
        """Return tables for people."""
        queues = [
            [
                queue["name"] + (" (paused)" if queue["paused"] else ""),
                *(str(queue[name]) for name in COUNTS),
                f"{queue['lag']:.1f} s",
            ]
            for queue in self.queues
        ]
        failures = [[str(count), group] for group, count in self.failures.items()]
        workers = [
            [worker["name"], str(worker["jobs"]), str(worker["stalled"])]
            for worker in self.workers
        ]
        return "\n\n".join(
            [
                table(["queue", *COUNTS, "lag"], queues, "no queues"),
                table(["failed", "group"], failures, "no failures"),
                table(["worker", "jobs", "stalled"], workers, "no workers"),
            ]
        )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> str:
    """Return rows in columns, or `nothing` if there are none."""
    if not rows:
        return nothing
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
