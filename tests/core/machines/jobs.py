"""A model of jobs in plain Python: what calls do to them, and what is refused.

Each method checks everything before it changes anything, as the core does, and raises
Refused with the codes of which one must be answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tests.core.machines.job import Job, Put, Refused
from tests.core.machines.links import Links

HEARTBEAT, GRACE = 60.0, 10.0
OURS, OLD = ["w1", "w2"], ["old1", "old2"]  # workers


class Jobs(Links):
    """All jobs of a namespace."""

    # Putting.

    def put(self, put: Put, *, old: bool = False, requeue: bool = False) -> str | None:
        """Put one job; return the jid that stands for it, None if it is left alone."""
        job = self.jobs.get(put.jid)
        if put.jid in (put.depends or ()):
            raise Refused("CYCLE")
        if requeue and job is None:
            raise Refused("NOJOB")
        if job and put.absent:
            return None
        answer, holder = self.conflict(put, job)
        if answer == "keep":
            return holder
        target = holder if answer == "replace" else put.jid
        assert target is not None
        behind = holder if answer == "behind" else None
        there = self.jobs.get(target)
        if answer == "replace" and there and there.behind in there.depends:
            behind = there.behind
        links = self.links(put, behind, fresh=answer == "replace", old=old)
        if links is not None and there:
            self.refuse_cycle({target: links})
        self.store(put, target, links, behind, fresh=answer == "replace")
        return target

    def conflict(self, put: Put, job: Job | None) -> tuple[str, str | None]:
        """Return what follows from the job's unique key, and who has it."""
        key, regains = put.unique, False
        if job and not key and job.unique and job.state in ("failed", "complete"):
            key, regains = job.unique[1], True
        holder = self.holder(key) if key else None
        conflict = None if regains else put.conflict or "keep"
        if not holder or holder == put.jid or conflict == "take":
            return "", None
        if conflict == "keep":
            return "keep", holder
        if regains:
            raise Refused("STATE")
        return "replace" if self.jobs[holder].is_pending() else "behind", holder

    def links(
        self, put: Put, behind: str | None, *, fresh: bool, old: bool, coming: Any = ()
    ) -> list[str] | None:
        """Return what the job has to wait for; None: for the same as before."""
        if not put.depends and not fresh and not behind:
            return None
        found = self.open(put.depends or (), put.on_failure, old=old, coming=coming)
        return found + [behind] * bool(behind)

    def store(
        self, put: Put, jid: str, links: list[str] | None, behind: str | None, *, fresh: bool
    ) -> None:  # fmt: skip
        """Write a put that was checked."""
        old = self.jobs.get(jid)
        job = Job(jid, put.queue, put.klass, put.data, since=self.now)
        before = Job(jid) if fresh or old is None else old
        job.priority = before.priority if put.priority is None else put.priority
        job.retries = before.retries if put.retries is None else put.retries
        job.tags = list(before.tags if put.tags is None else dict.fromkeys(put.tags))
        job.remaining = job.retries
        job.limit_key = put.limit_key or before.limit_key
        job.fair_by = put.fair_by or before.fair_by
        job.unique = before.unique
        if put.unique:
            job.unique = (put.unique_until or "end", put.unique)
        job.on_failure = put.on_failure or "block"
        if links is None:
            job.on_failure = put.on_failure or before.on_failure
            job.depends, job.behind = set(before.depends), before.behind
        else:
            job.depends, job.behind = set(links), behind or ""
        if old:
            job.failure, job.workflow = old.failure, old.workflow
            self.clear(old, job)
        if put.workflow and not (fresh and job.workflow):
            job.workflow = put.workflow
        job.due = self.now + put.delay if put.delay > 0 else None
        job.state = "waiting" if job.due is None else "scheduled"
        job.state = "depends" if job.depends else job.state
        self.canceled.pop(jid, None)
        self.jobs[jid] = job
        if put.unique:
            self.keys[put.unique] = jid
        else:
            self.regain(job)

    def clear(self, old: Job, new: Job) -> None:
        """Undo what a record does outside of it that is put anew."""
        if old.state == "failed":
            self.unfail_one(old)
        if old.unique != new.unique:
            self.free_key(old)

    def put_many(self, puts: Sequence[Put]) -> tuple[list[str], dict[str, str]]:
        """Put all or none; return those left alone, and those that others stand for.

        Of keys and dependencies a batch has only one: no job with a key depends on
        others, and none depends on it.
        """
        left = [p.jid for p in puts if p.absent and p.jid in self.jobs]
        coming = [p.jid for p in puts if p.jid not in left]
        instead, planned, plans = dict[str, str](), dict[str, list[str]](), []
        for put in puts:
            if put.jid in (put.depends or ()):
                raise Refused("CYCLE")
        for put in puts:
            if put.jid in left:
                continue
            answer, holder = self.conflict(put, self.jobs.get(put.jid))
            if holder and answer in ("keep", "replace"):
                instead[put.jid] = holder
                coming.remove(put.jid)
            target = instead.get(put.jid, put.jid)
            behind = holder if answer == "behind" else None
            if answer != "keep":
                fresh = answer == "replace"
                there = self.jobs.get(target)
                if fresh and there and there.behind in there.depends:
                    behind = there.behind
                plans.append((put, target, behind, fresh))
        stored = []
        for put, target, behind, fresh in plans:
            links = self.links(put, behind, fresh=fresh, old=False, coming=coming)
            if links is not None:
                planned[target] = links
            stored.append((put, target, links, behind, fresh))
        self.refuse_cycle(planned)
        for put, target, links, behind, fresh in stored:
            self.store(put, target, links, behind, fresh=fresh)
        return left, instead

    # Handing out.

    def take(
        self, queue: str, count: int, worker: str, told: list[tuple[str, str]], *, old: bool
    ) -> int:  # fmt: skip
        """Hand out jobs of a queue as `told`, which has (jid, token) in order.

        It is consumed from its front; where several are equally next, it decides.
        """
        if queue in self.paused:
            return 0
        freed = self.expire(queue, count, old=old)
        for job in freed:
            assert told and told[0][0] == job.jid, (
                f"{job.jid} has lost its lock: {told}"
            )
            self.start(job, worker, told.pop(0)[1])
        taken = len(freed)
        if taken == count:
            return taken
        self.move_due(queue, count - taken if old else None, old=old)
        while taken < count and (ready := self.in_state("waiting", queue)):
            best = min(job.rank() for job in ready)
            next_ones = {job.jid: job for job in ready if job.rank() == best}
            assert told and told[0][0] in next_ones, f"not {sorted(next_ones)}: {told}"
            jid, token = told.pop(0)
            self.start(next_ones[jid], worker, token)
            taken += 1
        return taken

    def expire(self, queue: str, count: int, *, old: bool) -> list[Job]:
        """Look at locks that have run out; return those jobs that are handed out again.

        A pop of an old client looks at no more of them than it may hand out.
        """
        freed: list[Job] = []
        out = [job for job in self.in_state("running", queue) if job.lock <= self.now]
        out.sort(key=lambda job: (job.lock, job.jid))
        for job in out[: count if old else None]:
            if len(freed) == count:
                break
            if not job.noticed:
                job.noticed, job.lock = True, self.now + GRACE
                continue
            if self.lose(job):
                freed.append(job)
        return freed

    def lose(self, job: Job) -> bool:
        """Return whether the job whose lock is lost may be handed out again."""
        job.remaining -= 1
        if job.remaining < 0:
            self.fail(job, f"failed-retries-{job.queue}")
        return job.state == "running"

    def move_due(self, queue: str, most: int | None, *, old: bool) -> None:
        """Make jobs wait whose delay is over; old clients count from now."""
        due = [j for j in self.in_state("scheduled", queue) if (j.due or 0) <= self.now]
        for job in sorted(due, key=lambda job: (job.due, job.jid))[:most]:
            job.state, job.since, job.due = (
                "waiting",
                self.now if old else job.due or 0,
                None,
            )

    def start(self, job: Job, worker: str, token: str) -> None:
        assert int(token) > self.last_token, f"token {token} after {self.last_token}"
        self.last_token = int(token)
        job.state, job.worker, job.token, job.first = "running", worker, token, False
        self.renew(job, exactly=worker in OLD)
        job.noticed, job.due, job.returned = False, None, True
        if job.unique and job.unique[0] == "start":
            self.free_key(job)

    # Runs that end.

    def held(self, jid: str, *, token: str = "", worker: str = "") -> Job:
        """Return a job that is held with this token, or by this worker."""
        job = self.existing(jid)
        if job.state != "running" or (
            job.token != token if token else job.worker != worker
        ):
            raise Refused("LOCKLOST")
        return job

    def renew(self, job: Job, *, exactly: bool) -> None:
        """Locks end with a whole second, but those of old clients."""
        until = self.now + HEARTBEAT
        job.expires = job.lock = until if exactly else math.floor(until)

    def beat(self, job: Job, *, old: bool = False) -> None:
        self.renew(job, exactly=old)
        job.noticed = False

    def complete(self, job: Job, result: str | None = None) -> None:
        """End a run; `release` lets its dependents go on."""
        job.state, job.queue, job.failure = "complete", "", None
        job.remaining, job.result = job.retries, result

    def release(self, jobs: Iterable[Job]) -> None:
        """Let those go on that waited for these, which are complete."""
        for done in jobs:
            self.free_key(done)
            for job in self.dependents(done.jid):
                job.depends.discard(done.jid)
                self.free_if_last(job)

    def back(self, job: Job, delay: float = 0, queue: str = "") -> None:
        job.queue = queue or job.queue
        job.state, job.since = "waiting", self.now
        if delay > 0:
            job.state, job.due = "scheduled", self.now + delay
        self.regain(job)

    def hand_back(self, job: Job, delay: float) -> None:
        """It was not run: it goes to the head of its equals."""
        waiting = self.in_state("waiting", job.queue)
        equals = [
            j.since for j in waiting if j.priority == job.priority and not j.first
        ]
        self.back(job, delay)
        job.since = min([*equals, self.now])

    def retry(self, job: Job, delay: float, group: str | None, queue: str = "") -> int:
        """Use up a retry; without a `group` and a message the failure stays as it was."""
        job.remaining -= 1
        if job.remaining < 0:
            self.fail(job, group or f"failed-retries-{queue or job.queue}")
        else:
            job.failure = job.failure if group is None else group
            self.back(job, delay, queue)
        return job.remaining

    def crash(self, job: Job, limit: int, group: str) -> None:
        job.crashes += 1
        if job.crashes > limit:
            self.fail(job, group)
        else:
            self.back(job)

    def advance(self, job: Job, queue: str, delay: float, links: list[str]) -> str:
        """End a run and go on in another queue; return the new state."""
        job.failure, job.remaining = None, job.retries
        self.back(job, delay, queue)
        job.depends = set(links)
        job.state = "depends" if links else job.state
        return job.state

    def fail(self, job: Job, group: str) -> None:
        """File a job as failed."""
        job.state, job.failure, job.first = "failed", group, False
        self.groups.setdefault(group, []).append(job.jid)
        self.free_key(job)
        self.follow(job.jid, "failed")

    def unfail_one(self, job: Job) -> None:
        self.groups[job.failure or ""].remove(job.jid)
        if not self.groups[job.failure or ""]:
            del self.groups[job.failure or ""]

    def follow(self, jid: str, kind: str) -> None:
        """See what becomes of the dependents of a job that has `failed`, or is `gone`."""
        for job in self.dependents(jid):
            if job.jid not in self.jobs or jid not in job.depends:
                continue  # It went with another one.
            policy = "run" if job.behind == jid else job.on_failure
            if policy == "run":
                job.depends.discard(jid)
                self.free_if_last(job)
            elif policy == "cancel":
                self.remove(job)
                self.follow(job.jid, "gone")
            elif kind == "gone":
                job.depends.clear()
                job.due = None
                self.fail(job, "dependency-canceled")

    # What may be done to any job.

    def remove(self, job: Job) -> None:
        if job.state == "failed":
            self.unfail_one(job)
        del self.jobs[job.jid]
        self.canceled[job.jid] = self.now
        self.free_key(job)

    def cancel(self, jids: Sequence[str], *, old: bool = False) -> list[str]:
        for jid in jids:
            for job in self.dependents(jid):
                can_lose = job.on_failure != "block" or job.behind == jid
                if job.jid not in jids and (old or not can_lose):
                    raise Refused("DEPENDENTS")
        gone = [jid for jid in jids if self.is_cancelable(jid)]
        for jid in gone:
            self.remove(self.jobs[jid])
        for jid in gone:
            self.follow(jid, "gone")
        return list(jids)

    def is_cancelable(self, jid: str) -> bool:
        return jid in self.jobs and self.jobs[jid].state != "complete"

    def timeout(self, jid: str) -> None:
        job = self.existing(jid)
        if job.state != "running":
            raise Refused("STATE")
        job.state, job.first, job.since = "waiting", True, self.now

    def depend(self, jid: str, word: str, others: Sequence[str], *, old: bool) -> None:
        """Add or remove dependencies; `all` stands for all."""
        job = self.jobs.get(jid)
        if job is None or job.state != "depends":
            raise Refused("STATE")
        if word == "on":
            links = self.open(others, job.on_failure, old=old)
            self.refuse_cycle({jid: links})
            job.depends.update(links)
        else:
            job.depends -= job.depends if others == ["all"] else set(others)
            self.free_if_last(job)

    def unfail(self, queue: str, group: str, count: int) -> int:
        """Put the oldest jobs of a group into a queue; return how many."""
        jobs = [self.jobs[jid] for jid in self.groups.get(group, [])]
        number = 0
        for job in jobs:
            if number < count and self.may_go_on(job):
                self.revive(job, queue)
                number += 1
        return number

    def revive(self, job: Job, queue: str = "") -> None:
        self.unfail_one(job)
        job.remaining, job.crashes = job.retries, 0
        self.back(job, 0, queue)

    def dump(self, job: Job) -> dict[str, Any]:
        """Return what `get` must say of a job."""
        shown = {
            "state": self.state(job), "queue": job.queue, "data": job.data,
            "priority": job.priority, "retries": job.retries,
            "remaining": job.remaining, "tags": job.tags, "crashes": job.crashes,
            "failure": job.failure, "dependencies": sorted(job.depends),
            "dependents": sorted(other.jid for other in self.dependents(job.jid)),
            "unique": job.unique[1] if job.unique else None, "workflow": job.workflow,
        }  # fmt: skip
        if job.state == "running":
            shown |= {"worker": job.worker, "token": job.token, "expires": job.expires}
        return shown
