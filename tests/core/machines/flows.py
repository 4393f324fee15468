"""The model of what belongs together: spawned jobs, and workflows with their counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.core.machines.job import Job, Put, Refused
from tests.core.machines.jobs import Jobs

GATE = "gate:"


def gate(flow: str | None) -> str:
    """Return what stands for the gate of a workflow among the jids."""
    return f"{GATE}{flow}"


@dataclass
class Flow:
    """A workflow: the jids that joined it, in order, and how many were canceled since."""

    joined: list[str] = field(default_factory=list)
    canceled: int = 0


class Flows(Jobs):
    """Jobs that spawn others, and workflows."""

    def __init__(self) -> None:
        super().__init__()
        self.flows: dict[str, Flow] = {}
        self.gated: set[str] = set()  # workflows that are not released
        self.parents: dict[str, str] = {}  # of jobs that were spawned
        self.offspring: dict[str, list[str]] = {}  # of each job, in order
        self.needs: dict[str, list[str]] = {}  # what jobs were ever made to wait for

    # Spawned jobs: who waits for a job waits for those, too.

    def verdict(self, job: Job, policy: str | None) -> str:
        """Return what a complete job means to a dependent: open, met, or cancel it."""
        found = "met"
        for jid in self.offspring.get(job.jid, ()):
            child = self.jobs.get(jid)
            if child is None:
                continue
            if child.state == "complete":
                one = self.verdict(child, policy)
            elif child.state == "failed":
                one = {"run": "met", "cancel": "cancel"}.get(policy or "", "open")
            else:
                one = "open"
            if one == "cancel":
                return one
            found = "open" if one == "open" else found
        return found

    def holds(self, job: Job, policy: str | None) -> bool:
        if job.state != "complete":
            return super().holds(job, policy)
        verdict = self.verdict(job, policy)
        if verdict == "cancel":
            raise Refused("STATE")
        return verdict == "open"

    def settle_links(self) -> None:
        """Let those go on that wait for nothing, until none is left."""
        again = True
        while again:
            again = False
            for job in self:
                for jid in sorted(job.depends):
                    other = self.jobs.get(jid)
                    if other is None or other.state != "complete":
                        continue
                    verdict = self.verdict(other, job.on_failure)
                    if verdict == "cancel":
                        self.remove(job)
                        self.follow(job.jid, "gone")
                        again = True
                        break
                    if verdict == "met":
                        job.depends.discard(jid)
                        self.free_if_last(job)
                        again = True

    def release(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.free_key(job)
        self.settle_links()

    def fail(self, job: Job, group: str) -> None:
        super().fail(job, group)
        self.settle_links()

    def cancel(self, jids: Sequence[str], *, old: bool = False) -> list[str]:
        gone = super().cancel(jids, old=old)
        self.settle_links()
        return gone

    def depend(self, jid: str, word: str, others: Sequence[str], *, old: bool) -> None:
        super().depend(jid, word, others, old=old)
        if word == "on":
            self.needs.setdefault(jid, []).extend(others)

    def spawn(self, jid: str, token: str, puts: Sequence[Put]) -> tuple[list[str], dict[str, str]]:  # fmt: skip
        """Put jobs in the name of a running one; those that are there stay as they are."""
        job = self.held(jid, token=token)
        left = [put.jid for put in puts if put.jid in self.jobs]
        for put in puts:
            if put.jid not in left:
                put.workflow = job.workflow
                self.put(put)
        known = self.offspring.setdefault(jid, [])
        known += [put.jid for put in puts if put.jid not in known]
        self.parents.update({put.jid: jid for put in puts})
        return left, {}

    def waiting_through(self, jid: str) -> list[Job]:
        """Return who waits for a spawned job because it waits for those above it."""
        parent, found = self.parents.get(jid), list[Job]()
        while parent:
            found += self.dependents(parent)
            parent = self.parents.get(parent)
        return found

    # Workflows.

    def store(
        self, put: Put, jid: str, links: Any, behind: Any, *, fresh: bool
    ) -> None:
        old = self.jobs.get(jid)
        was = old.workflow if old else None
        if links is not None or not old:
            self.needs.pop(jid, None)
        if links is not None and put.depends:
            self.needs[jid] = list(dict.fromkeys(put.depends))
        super().store(put, jid, links, behind, fresh=fresh)
        flow = self.jobs[jid].workflow
        if flow != was and was:
            self.flows[was].canceled += 1
        if flow and flow != was:
            self.flows[flow].joined.append(jid)
        self.stand_at_gate(self.jobs[jid])

    # None of its jobs starts before it is released: each waits for its gate, too.

    def stand_at_gate(self, job: Job) -> None:
        if job.workflow in self.gated:
            job.depends.add(gate(job.workflow))
            job.state = "depends"

    def revive(self, job: Job, queue: str = "") -> None:
        super().revive(job, queue)
        self.stand_at_gate(job)

    def begin_flow(self, name: str) -> str:
        self.flows.setdefault(name, Flow())
        self.gated.add(name)
        return name

    def add_to_flow(self, puts: Sequence[Put]) -> list[list[str]]:
        self.put_many(puts)
        return [[], []]

    def release_flow(self, name: str) -> int:
        """Let the jobs of a workflow begin that wait for nothing else."""
        self.gated.discard(name)
        for job in self.dependents(gate(name)):
            job.depends.discard(gate(name))
            self.free_if_last(job)
        return 0

    def dump(self, job: Job) -> dict[str, Any]:
        """Return what `get` must say of a job: it names no gate."""
        shown = super().dump(job)
        names = [jid for jid in shown["dependencies"] if not jid.startswith(GATE)]
        return {**shown, "dependencies": names}

    def remove(self, job: Job) -> None:
        super().remove(job)
        self.needs.pop(job.jid, None)
        if job.workflow:
            self.flows[job.workflow].canceled += 1

    def put(self, put: Put, *, old: bool = False, requeue: bool = False) -> str | None:
        if put.workflow and put.workflow not in self.flows:
            raise Refused("NOJOB")
        job = self.jobs.get(put.jid)
        if job and put.workflow in self.gated and job.workflow == put.workflow:
            return None  # It was put already.
        if job and put.workflow in self.gated:
            raise Refused("STATE")
        return super().put(put, old=old, requeue=requeue)

    def put_flow(self, name: str, puts: Sequence[Put]) -> str:
        """Put a workflow whose jobs wait for earlier ones of it, or for others."""
        members = [put.jid for put in puts]
        for put in puts:
            others = [jid for jid in put.depends or () if jid not in members]
            self.open(others, put.on_failure, old=False)
        self.flows[name] = Flow()
        for put in puts:
            put.workflow = name
            self.put(put)
        return name

    def cancel_flow(self, name: str) -> int:
        if name not in self.flows:
            raise Refused("NOJOB")
        if self.counts(name)["state"] in ("complete", "canceled"):
            return 0
        members = [job for job in self if job.workflow == name]
        gone = [job for job in members if job.state != "complete"]
        for job in gone:
            self.remove(job)
        for job in gone:
            self.follow(job.jid, "gone")
        self.settle_links()
        self.gated.discard(name)
        return 0

    def retry_flow(self, name: str) -> list[int]:
        """Return where to go on, which is nowhere, and how many jobs go on."""
        if name not in self.flows:
            raise Refused("NOJOB")
        failed = [j for j in self if j.workflow == name and j.state == "failed"]
        for job in failed:
            self.revive(job)
        return [0, len(failed)]

    def counts(self, name: str) -> dict[str, Any]:
        """Return what a workflow's record must say."""
        flow = self.flows[name]
        states = [job.state for job in self if job.workflow == name]
        total, canceled = len(flow.joined), flow.canceled
        complete, failed = states.count("complete"), states.count("failed")
        held = states.count("depends")
        left = total - complete - failed - canceled
        if left == 0:
            state = "failed" if failed else "canceled" if canceled else "complete"
        else:
            state = "failed" if failed and left == held else "running"
        state = "unpacking" if name in self.gated else state
        numbers = {"total": total, "complete": complete, "failed": failed}
        return {**numbers, "canceled": canceled, "held": held, "state": state}
