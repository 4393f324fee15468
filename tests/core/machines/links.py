"""The part of the model that joins jobs: dependencies, and unique keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.core.machines.job import Job, Refused


class Links:
    """Jobs that wait for others, by their jids, and the keys that they hold."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: dict[str, Job] = {}
        self.canceled: dict[str, float] = {}
        self.groups: dict[str, list[str]] = {}  # the oldest first
        self.keys: dict[str, str] = {}
        self.paused: set[str] = set()
        self.last_token = 0

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self.jobs.values()))

    def existing(self, jid: str) -> Job:
        if jid not in self.jobs:
            raise Refused("NOJOB")
        return self.jobs[jid]

    def state(self, job: Job) -> str:
        """Return the state as readers see it."""
        is_due = job.state == "scheduled" and (job.due or 0) <= self.now
        return "waiting" if is_due else job.state

    def in_state(self, state: str, queue: str) -> list[Job]:
        return [job for job in self if job.state == state and job.queue == queue]

    # Dependencies.

    def dependents(self, jid: str) -> list[Job]:
        return [job for job in self if jid in job.depends]

    def open(
        self, jids: Iterable[str], policy: str | None, *, old: bool, coming: Any = ()
    ) -> list[str]:
        """Return which of these hold back a job with this policy for failures."""
        found = []
        for jid in jids:
            job = self.jobs.get(jid)
            if jid in coming:
                found.append(jid)
            elif job is None:
                if not old:
                    raise Refused("NOJOB", "CYCLE", "STATE")
            elif job.state == "failed" and policy == "cancel":
                raise Refused("STATE", "NOJOB", "CYCLE")
            elif self.holds(job, policy):
                found.append(jid)
        return found

    def holds(self, job: Job, policy: str | None) -> bool:
        """Return whether a dependent with this policy for failures waits for a job."""
        return job.state != "complete" and (job.state, policy) != ("failed", "run")

    def refuse_cycle(self, planned: dict[str, list[str]]) -> None:
        """Refuse links if one of these jobs would come to wait for itself."""
        for jid, others in planned.items():
            line, seen = list(others), set[str]()
            while line:
                other = line.pop()
                if other == jid:
                    raise Refused("CYCLE", "NOJOB", "STATE")
                if other not in seen:
                    seen.add(other)
                    job = self.jobs.get(other)
                    line += planned.get(other, job.depends if job else ())

    def free_if_last(self, job: Job) -> None:
        """Let a job go on if it waits for no other."""
        if not job.depends and job.state == "depends":
            job.state = "waiting" if job.due is None else "scheduled"
            job.since = self.now

    # Unique keys.

    def holder(self, key: str) -> str | None:
        """Return the jid of the job that has the key."""
        job = self.jobs.get(self.keys.get(key, ""))
        held = job is not None and job.counts() and job.unique and job.unique[1] == key
        return job.jid if job and held else None

    def regain(self, job: Job) -> None:
        if job.unique and job.counts() and not self.holder(job.unique[1]):
            self.keys[job.unique[1]] = job.jid

    def free_key(self, job: Job) -> None:
        if job.unique and self.keys.get(job.unique[1]) == job.jid:
            del self.keys[job.unique[1]]

    def may_go_on(self, job: Job) -> bool:
        """Return whether a failed job can have its key again."""
        jid = self.holder(job.unique[1]) if job.unique else None
        if jid is None or jid == job.jid:
            return True
        try:
            self.refuse_cycle({job.jid: [jid]})
        except Refused:
            return self.jobs[jid].state == "depends"
        return False
