"""Outcome of the jobs of one run, by the server's counters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from django_qless import entities, failures, jobs, queues


@dataclass(frozen=True)
class Tally:
    """Numbers of completed and of failed jobs until now."""

    completed: int
    failed: int

    def __sub__(self, before: Tally) -> Tally:
        return Tally(self.completed - before.completed, self.failed - before.failed)


def tally() -> Tally:
    """Adds up the server's counters of the last day, which it keeps by minute.

    A run of an entity whose retries are used up is no failed job: its payload is dead.
    """
    now = int(time.time()) // 60
    minutes = {name: queues[name].minutes(now - 24 * 60, now + 1) for name in queues}
    with_entities = {each.queue for each in entities.counts()}
    return Tally(
        completed=sum(sum(queue.completed.values()) for queue in minutes.values()),
        failed=sum(
            sum(queue.failed.values())
            for name, queue in minutes.items()
            if name not in with_entities
        ),
    )


@dataclass(frozen=True)
class Failed:
    """A job that has failed: why, and how often it was tried."""

    message: str
    attempts: int


@dataclass(frozen=True)
class Outcome:
    """Outcome of the jobs of one run."""

    completed: int
    failed: int
    dead: dict[str, int]
    """Dead entities, by the queue in which they are."""
    began: datetime
    seconds: float
    failures: dict[str, list[Failed]]

    @classmethod
    def since(cls, before: Tally, began: datetime) -> Outcome:
        """Returns the outcome since a tally was made, at this time."""
        run = tally() - before
        return cls(
            completed=run.completed,
            failed=run.failed,
            dead={each.queue: each.dead for each in entities.counts() if each.dead},
            began=began,
            seconds=(timezone.now() - began).total_seconds(),
            failures={group: failed_in(group) for group in sorted(failures.groups())},
        )


def failed_in(group: str) -> list[Failed]:
    """The jobs of a failure group, the newest first."""
    return [
        Failed(
            message=job.failure.message,
            # -1 remain of a job that has used up its retries and failed again.
            attempts=job.retries - max(job.remaining, 0) + 1,
        )
        for job in jobs.many(failures.jobs(group, limit=1000).jids)
    ]
