"""The model of schedules: templates of the protocol, and declared schedules with ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tests.core.machines.flows import Flows
from tests.core.machines.job import Job, Refused

MINUTE = 60


@dataclass
class Template:
    """A recurring job of the protocol: the pops of its queue make its jobs."""

    jid: str
    queue: str
    due: float
    interval: float
    backlog: float = 0
    count: int = 0
    priority: float = 0
    retries: int = 0
    tags: list[str] = field(default_factory=list)


@dataclass
class Schedule:
    """A declared schedule: each tick puts one job, however many workers look."""

    jid: str
    every: int  # seconds; of cron, whole minutes past the hour
    is_cron: bool
    missed: str
    due: float  # the next tick; of cron perhaps not known yet
    paused: bool = False
    count: int = 0
    last: float | None = None

    def first_after(self, time: float) -> float:
        """Return the first tick after a time."""
        if self.is_cron:
            return (time // self.every + 1) * self.every
        steps = max(0, math.floor((time - self.due) / self.every) + 1)
        return self.due + steps * self.every

    def ticks(self, now: float) -> list[float]:
        """Return the ticks that put jobs now, and go on behind the last one."""
        due: list[float] = []
        tick = self.due
        while tick <= now:
            due.append(tick)
            tick += self.every
        if not due or self.paused:
            return []
        last = due[-1]
        self.due = last + self.every
        in_time = now <= last + min(60, self.every / 2)
        if self.missed != "all":
            due = [last] if self.missed == "last" or in_time else []
        self.count += len(due)
        self.last = due[-1] if due else self.last
        return due


class Schedules(Flows):
    """Jobs, and the schedules that put some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.templates: dict[str, Template] = {}
        self.schedules: dict[str, Schedule] = {}

    def move_due(self, queue: str, most: int | None, *, old: bool) -> None:
        mine = [t for t in self.templates.values() if t.queue == queue]
        for template in sorted(mine, key=lambda t: (t.due, t.jid)):
            if template.due <= self.now:
                self.spawn_due(template)
        super().move_due(queue, most, old=old)

    def spawn_due(self, template: Template) -> None:
        """Put the jobs of ticks that are due; what is beyond the backlog is left out."""
        time = float(math.floor(template.due))
        missed = (self.now - time) / template.interval
        if template.backlog > 0 and missed > template.backlog:
            time += math.ceil(missed - template.backlog) * template.interval
        while time <= self.now:
            template.count += 1
            jid = f"{template.jid}-{template.count}"
            job = Job(jid, template.queue, "klass", "{}", template.priority, since=time)
            job.retries = job.remaining = template.retries
            job.tags = list(template.tags)
            self.jobs[jid] = job
            time += template.interval
        template.due = time

    def template(self, jid: str) -> Template:
        if jid not in self.templates:
            raise Refused("NOJOB")
        return self.templates[jid]

    def schedule(self, jid: str) -> Schedule:
        if jid not in self.schedules:
            raise Refused("NOSCHEDULE")
        return self.schedules[jid]

    def declare(self, jid: str, every: int, offset: float, missed: str) -> str:
        """Set a schedule, by cron without an `offset`; return whether it is new."""
        old = self.schedules.get(jid)
        made = Schedule(jid, every, jid.startswith("cron"), missed, self.now + offset)
        if made.is_cron:
            made.due = made.first_after(self.now)
        if old:
            made.count, made.last, made.paused = old.count, old.last, old.paused
            if (old.every, made.is_cron) == (made.every, True) or not made.is_cron:
                made.due = old.due
            if not made.is_cron and made.every != old.every and old.due > self.now:
                shifted = old.due - old.every + made.every
                made.due = shifted
                made.due = shifted if shifted > self.now else made.first_after(self.now)
        self.schedules[jid] = made
        return "changed" if old else "new"

    def pause(self, jid: str) -> int:
        schedule = self.schedule(jid)
        changed = not schedule.paused
        schedule.paused = True
        return int(changed)

    def resume(self, jid: str) -> int:
        """Go on in the old rhythm: what fell due meanwhile is no missed tick."""
        schedule = self.schedule(jid)
        changed = schedule.paused
        if changed and schedule.due <= self.now:
            schedule.due = schedule.first_after(self.now)
        schedule.paused = False
        return int(changed)

    def due_now(self) -> dict[str, list[float]]:
        """Return the ticks of each schedule that put a job now."""
        ticks = {jid: s.ticks(self.now) for jid, s in self.schedules.items()}
        return {jid: times for jid, times in ticks.items() if times}

    def shown(self, schedule: Schedule) -> dict[str, Any]:
        """Return what `schedule.get` must say."""
        shown: dict[str, Any] = {"count": schedule.count, "paused": schedule.paused}
        if not schedule.is_cron:
            shown["next"] = None if schedule.paused else schedule.due
        return {**shown, "last": schedule.last, "missed": schedule.missed}
