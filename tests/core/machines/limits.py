"""The model of limits: who may start, and who must.

It does not say which of several jobs starts, but sees that each start is allowed, and says
which jobs have all the room that they need.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tests.core.machines.job import Job
from tests.core.machines.jobs import GRACE, Jobs

UNITS = {"s": 1, "m": 60}


class Limit(NamedTuple):
    """What an option allows those to whom the name belongs."""

    name: str
    most: int  # at a time; 0: any number
    count: int  # starts in a window of `per` seconds; 0: any number
    per: float


class Limited(Jobs):
    """Jobs of types, of keys and of queues that have limits."""

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, str] = {}
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.started: dict[str, float] = {}  # when each job did so last
        # Of each tenant: when one of its jobs started last in its turn, when any of them
        # did, and when what it has in its queue was last changed otherwise.
        self.turns: dict[str, float] = {}
        self.served: dict[str, float] = {}
        self.disturbed: dict[str, float] = {}

    def limit(self, name: str, option: str, of: str) -> Limit:
        most = int(self.options.get(f"{option}-max-concurrency{of}", 0))
        rate = self.options.get(f"{option}-rate{of}", "0")
        count, _, per = rate.partition("/")
        seconds = float(per[:-1] or 1) * UNITS[per[-1]] if per else 0.0
        return Limit(name, most, int(count), seconds)

    def limits_of(self, job: Job) -> list[Limit]:
        """Return the limits of a job's type and key."""
        limits = [self.limit(f"type:{job.klass}", job.klass, "-of-type")]
        if job.limit_key:
            name = f"key:{job.klass}:{job.limit_key}"
            limits.append(self.limit(name, job.klass, "-per-key"))
        return [limit for limit in limits if limit.most or limit.count]

    def limit_of_queue(self, queue: str) -> Limit:
        return self.limit(f"queue:{queue}", queue, "")

    def running_under(self, limit: Limit) -> list[Job]:
        return [j for j in self if j.state == "running" and limit.name in j.holds]

    def end_of_hold(self, job: Job) -> float:
        """Return when the lock of a run and the grace behind it end."""
        return job.lock if job.noticed else job.lock + GRACE

    def room_of_rate(self, limit: Limit) -> float:
        """Return how many more may start in the window that ends now."""
        if not limit.count:
            return float("inf")
        begin = self.now - limit.per
        self.starts[limit.name] = [t for t in self.starts[limit.name] if t >= begin]
        return max(0, limit.count - len(self.starts[limit.name]))

    def room_of_queue(self, queue: str) -> float:
        limit = self.limit_of_queue(queue)
        room = self.room_of_rate(limit)
        if limit.most:
            held = [j for j in self.in_state("running", queue) if j.lock >= self.now]
            room = min(room, max(0, limit.most - len(held)))
        return room

    def can_start(self, job: Job) -> bool:
        """Return whether all limits of a job have room, its queue apart."""
        for limit in self.limits_of(job):
            others = [j for j in self.running_under(limit) if j is not job]
            if limit.most and len(others) >= limit.most:
                return False
            if self.room_of_rate(limit) < 1:
                return False
        return True

    def forgotten(self) -> list[str]:
        """Return the jobs that wait although they have all the room that they need."""
        return [
            job.jid
            for job in self
            if self.state(job) == "waiting"
            and job.queue not in self.paused
            and self.room_of_queue(job.queue) >= 1
            and self.can_start(job)
        ]

    def is_any_closed(self) -> bool:
        """Return whether jobs wait in a queue that hands out none for now."""
        return any(
            self.state(job) == "waiting"
            and (job.queue in self.paused or self.room_of_queue(job.queue) < 1)
            for job in self
        )

    # Handing out.

    def take(
        self, queue: str, count: int, worker: str, told: list[tuple[str, str]], *, old: bool
    ) -> int:  # fmt: skip
        """See that what is `told` of this queue may start; return how many do."""
        allowed = int(min(count, self.room_of_queue(queue)))
        if queue in self.paused or allowed <= 0:
            return 0
        taken, freed = 0, self.expire(queue, allowed, old=old)
        for job in freed:
            if told and told[0][0] == job.jid:
                self.start(job, worker, told.pop(0)[1])
                taken += 1
            else:
                self.park(job)
        if taken < allowed:
            self.move_due(queue, None, old=old)
        while told and self.jobs[told[0][0]].queue == queue:
            jid, token = told.pop(0)
            job = self.jobs[jid]
            assert taken < allowed, f"{jid} is one more than {queue} may hand out"
            assert job.state == "waiting", f"{jid} was {job.state}, and started"
            self.see_order(job, alone=count == 1 and not freed)
            self.start(job, worker, token)
            taken += 1
        if self.limit_of_queue(queue).count:
            self.starts[f"queue:{queue}"] += [self.now] * taken
        return taken

    def park(self, job: Job) -> None:
        """A job that has lost its lock is held back, perhaps by its tenant."""
        job.holds.clear()
        self.back(job)
        has_room = not job.fair_by and self.can_start(job)
        assert not has_room, f"{job.jid} has lost its lock, and rests"

    def start(self, job: Job, worker: str, token: str) -> None:
        limits = self.limits_of(job)
        for limit in limits:
            others = [j for j in self.running_under(limit) if j is not job]
            for other in others:
                if limit.most and self.end_of_hold(other) <= self.now:
                    other.holds.discard(limit.name)
            others = [other for other in others if limit.name in other.holds]
            assert not limit.most or len(others) < limit.most, f"{job.jid}: {limit}"
            assert self.room_of_rate(limit) >= 1, f"{job.jid} started too soon: {limit}"
            if limit.count:
                self.starts[limit.name].append(self.now)
        job.holds = {limit.name for limit in limits if limit.most}
        self.started[job.jid] = self.now
        super().start(job, worker, token)

    def hand_back(self, job: Job, delay: float) -> None:
        """It was not run, so it does not count among the starts."""
        started = self.started[job.jid]
        for limit in [*self.limits_of(job), self.limit_of_queue(job.queue)]:
            if limit.count and started in self.starts[limit.name]:
                self.starts[limit.name].remove(started)
        super().hand_back(job, delay)

    # Order: of those that were put and have not started since.

    def see_order(self, job: Job, *, alone: bool) -> None:
        """See that no other job should have started before this one.

        Only of what is handed out `alone` it is certain that nothing was met before that
        had no room then.
        """
        if job.fair_by and job.queue == "t":
            self.served[job.fair_by] = self.now
            if not job.returned:
                self.see_turn(job)
        for other in self.in_state("waiting", job.queue):
            if (
                other.returned
                or job.returned
                or other is job
                or job.fair_by
                or other.fair_by
            ):
                continue  # fmt: skip
            same = (other.klass, other.limit_key, other.priority) == (job.klass, job.limit_key, job.priority)  # fmt: skip
            if same:
                # (What a limit has brought back may stand in another queue.)
                assert other.rank() >= job.rank() or self.has_rivals(
                    other, elsewhere=True
                ), f"{other.jid} was put before {job.jid}"
            elif alone and other.rank() < job.rank() and not self.has_rivals(other):
                assert not self.can_start(other), f"{other.jid} goes before {job.jid}"

    def has_rivals(self, job: Job, *, elsewhere: bool = False) -> bool:
        """Return whether another waiting job (of another queue) needs a limit of this one."""
        names = {limit.name for limit in self.limits_of(job)}
        others = [j for j in self if self.state(j) == "waiting" and j is not job]
        return any(
            names & {limit.name for limit in self.limits_of(other)}
            for other in others
            if not elsewhere or other.queue != job.queue
        )

    def see_turn(self, job: Job) -> None:
        """See that no other tenant has waited since this one's last turn.

        (A higher priority goes before turns.)
        """
        before = self.turns.get(job.fair_by or "")
        for other in self.in_state("waiting", job.queue):
            tenant = other.fair_by or ""
            since = max(other.since, self.disturbed.get(tenant, 0))
            if (
                before is not None
                and tenant not in ("", job.fair_by)
                and since < before
                and other.priority >= job.priority
            ):
                turn = self.served.get(tenant, 0)
                assert other.returned or turn >= before, f"{tenant} waits for its turn"
        self.turns[job.fair_by or ""] = self.now

    def disturb(self, jid: str) -> None:
        """Note that a job of a tenant is changed, whose place another one may take."""
        if (job := self.jobs.get(jid)) and job.fair_by:
            self.disturbed[job.fair_by] = self.now
