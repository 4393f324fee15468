"""The model of entities: jobs that carry payloads, which are merged by their scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.core.caller import entity_jid
from tests.core.machines.job import Job
from tests.core.machines.limits import Limited

LOSSES = 3  # in a row that one payload may cause
#: Groups of failures that no payload of the entity can do anything about.
OF_ALL = {"row-gone"}

Payloads = dict[str, float]


@dataclass
class Entity:
    """Payloads by what is to become of them, each with its score."""

    name: str
    waiting: Payloads = field(default_factory=dict)
    running: Payloads = field(default_factory=dict)
    dying: Payloads = field(default_factory=dict)
    retries_of_dead: int = 0
    priority_of_dead: float = 0


def merge(payloads: Payloads, more: Payloads) -> int:
    """Add payloads; of equal ones the lower score stays. Return how many are new."""
    new = len(more.keys() - payloads.keys())
    for text, score in more.items():
        payloads[text] = min(score, payloads.get(text, score))
    return new


def ordered(payloads: Payloads) -> list[tuple[float, str]]:
    return sorted((score, text) for text, score in payloads.items())


class Entities(Limited):
    """Jobs, and the entities of the queue `e`."""

    queue = "e"

    def __init__(self) -> None:
        super().__init__()
        self.entities: dict[str, Entity] = {}

    def of(self, job: Job) -> Entity | None:
        return self.entities.get(job.jid)

    def push(
        self, items: Sequence[tuple[str, str, float]], due: float | None, retries: int
    ) -> int:
        """Push payloads (entity, text, score); return how many are new."""
        new = 0
        for name in dict.fromkeys(name for name, _, _ in items):
            entity = self.entities.setdefault(entity_jid("e", name), Entity(name))
            payloads: Payloads = {}
            for other, text, score in items:
                if other == name:
                    merge(payloads, {text: score})
            new += merge(entity.waiting, payloads)
            job = self.jobs.get(entity_jid("e", name))
            if job is None or job.state == "complete":
                self.enqueue(entity, retries, due)
        return new

    def enqueue(self, entity: Entity, retries: int, due: float | None) -> Job:
        jid = entity_jid("e", entity.name)
        job = Job(jid, "e", "sync", f'{{"entity":"{entity.name}"}}', since=self.now)
        job.retries = job.remaining = retries
        if due is not None and due > self.now:
            job.state, job.due = "scheduled", due
        if old := self.jobs.get(jid):
            job.failure = old.failure
        self.jobs[jid] = job
        self.canceled.pop(jid, None)
        return job

    def again(self, job: Job) -> None:
        """What was pushed meanwhile is next, as though it had never failed."""
        job.queue, job.state, job.since = "e", "waiting", self.now
        job.remaining, job.crashes = job.retries, 0
        job.due, job.first, job.failure = None, False, None

    # Runs.

    def start(self, job: Job, worker: str, token: str) -> None:
        if entity := self.of(job):
            merge(entity.waiting, entity.running)
            entity.running, entity.waiting = entity.waiting, {}
        super().start(job, worker, token)

    def release(self, jobs: Iterable[Job]) -> None:
        super().release(jobs)
        for job in jobs:
            if entity := self.of(job):
                entity.running = {}
                if entity.waiting:
                    self.again(job)

    def back(self, job: Job, delay: float = 0, queue: str = "") -> None:
        if entity := self.of(job):
            merge(entity.waiting, entity.running)
            entity.running = {}
        super().back(job, delay, queue)

    def timeout(self, jid: str) -> None:
        super().timeout(jid)
        if entity := self.of(self.jobs[jid]):
            merge(entity.waiting, entity.running)
            entity.running = {}

    def lose(self, job: Job) -> bool:
        """Return whether the job whose lock is lost may be handed out again."""
        if not self.of(job):
            return super().lose(job)
        job.crashes += 1
        if job.crashes > LOSSES:
            job.remaining = -1
            self.fail(job, "worker-crash")
            return False
        return True

    def fail(self, job: Job, group: str) -> None:
        """Of an entity the payload that was first dies; the others go on."""
        entity = self.of(job)
        if entity is None:
            super().fail(job, group)
            return
        merge(entity.waiting, entity.running)
        entity.running = {}
        gone = ordered(entity.waiting)[: None if group in OF_ALL else 1]
        self.bury(job, entity, [text for _, text in gone])
        if entity.waiting:
            self.again(job)
        else:
            del self.jobs[job.jid]

    def bury(self, job: Job, entity: Entity, texts: Iterable[str]) -> None:
        merge(entity.dying, {text: entity.waiting.pop(text) for text in texts})
        entity.retries_of_dead = job.retries
        entity.priority_of_dead = job.priority

    def remove(self, job: Job) -> None:
        if entity := self.of(job):
            entity.waiting, entity.running = {}, {}
        super().remove(job)

    # What operators do.

    def is_waiting(self, jid: str) -> bool:
        job = self.jobs.get(jid)
        return job is not None and job.state in ("waiting", "scheduled")

    def run_now(self, job: Job) -> None:
        if job.state == "scheduled":
            job.state, job.due, job.since = "waiting", None, self.now
            job.returned = True

    def dead_back(self, names: Sequence[str]) -> list[str]:
        """Let dead payloads wait again; return which entities are dead no more."""
        for name in names:
            jid = entity_jid("e", name)
            entity = self.entities.get(jid, Entity(name))
            if not entity.dying:
                continue
            merge(entity.waiting, entity.dying)
            entity.dying = {}
            job = self.jobs.get(jid)
            if job is None or job.state == "complete":
                job = self.enqueue(entity, entity.retries_of_dead, None)
                job.remaining = max(0, job.retries - 1)
                job.priority = entity.priority_of_dead
            elif self.is_waiting(jid):
                job.remaining = job.retries
                self.run_now(job)
        return list(names)

    def dead_delete(self, names: Sequence[str]) -> int:
        number = 0
        for name in names:
            entity = self.entities.get(entity_jid("e", name), Entity(name))
            number += bool(entity.dying)
            entity.dying = {}
        return number

    def kill(self, names: Sequence[str]) -> int:
        """Let the payloads of entities die that wait; return of how many."""
        jids = [entity_jid("e", name) for name in names]
        waiting = [jid for jid in jids if self.is_waiting(jid)]
        for jid in waiting:
            entity, job = self.entities[jid], self.jobs.pop(jid)
            self.bury(job, entity, list(entity.waiting))
        return len(waiting)

    def drop(self, names: Sequence[str]) -> int:
        jids = [entity_jid("e", name) for name in names]
        waiting = [jid for jid in jids if self.is_waiting(jid)]
        for jid in waiting:
            self.remove(self.jobs[jid])
        return len(waiting)

    def shown(self, jid: str) -> dict[str, Any]:
        """Return what `entity.show` must say."""
        entity, job = self.entities[jid], self.jobs.get(jid)
        parts: dict[str, Any] = {
            name: ordered(getattr(entity, name))
            for name in ("waiting", "running", "dying")
        }
        if job and job.state == "complete":
            parts["job"] = ("complete", -1)
        elif job:
            count = job.retries - job.remaining - 1
            parts["job"] = (self.state(job), count)
        else:
            parts["job"] = None
        return parts
