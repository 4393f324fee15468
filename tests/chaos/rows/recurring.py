"""Schedules among workers that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.chaos.row import row
from tests.chaos.rows.shared import LONG, tally_complete, wait_for_all

if TYPE_CHECKING:
    from django_qless.core import Client
    from tests.chaos.tally import Tally
    from tests.worker.processes import WorkerProcess
    from tests.worker.stage import Stage

WORKERS = 8


@row(times=20, quick=2)
def recurring(stage: Stage, tally: Tally, times: int) -> None:
    """A job each second, eight workers, kills: exactly one job per tick."""
    stage.client.config_set("heartbeat", 1)
    stage.client.config_set("grace-period", 0)
    workers = [stage.start(verbosity=1) for _ in range(WORKERS if times > 5 else 3)]
    for worker in workers:
        worker.wait_for_log("started")
    data = json.dumps({"v": 1, "args": [stage.runs.path, 0.3]})
    stage.client.recur("q", "clock", "record_self", data, 1, 0, retries=5)
    for n in range(times):
        name = f"clock-{n + 1}"
        stage.wait(lambda name=name: stage.runs.of(name), f"{name} runs", LONG)
        pid = stage.runs.of(name)[-1].pid
        at = next(
            (at for at, worker in enumerate(workers) if pid in worker.family()), 0
        )
        # By turns a child and the whole worker, who is replaced then, and nobody.
        if n % 3 == 0:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        elif n % 3 == 1:
            workers[at].signal("KILL")
            workers[at] = stage.start(verbosity=1)
    stage.client.unrecur("clock")
    ticks = {run.name for run in stage.runs.all()}
    for name in ticks:
        stage.job_when(name, "complete")
    spawned = sorted(int(name.removeprefix("clock-")) for name in ticks)
    tally.at_least("ticks", len(spawned), times)
    tally.exactly("ticks left out", spawned[-1] - len(spawned), 0)
    doubled = sum(
        len([run for run in stage.runs.of(name) if run.end is not None]) > 1
        for name in ticks
    )
    tally.note("kills", times - times // 3)
    tally.exactly("ticks that ran to their end twice", doubled, 0)
    again = sum(len(stage.runs.of(name)) > 1 for name in ticks)
    tally.note("ticks recovered from a kill", again)


SCHEDULES = 20


@row(times=45, quick=4, pools=("prefork", "threads"))
def schedules(stage: Stage, tally: Tally, times: int) -> None:
    """Twenty schedules, each second, of both kinds, kills: exactly one job per tick."""
    client, chance = stage.client, random.Random(times)
    client.config_set("heartbeat", 1)
    client.config_set("grace-period", 0)

    def start() -> WorkerProcess:
        return stage.start(verbosity=1, cron_by_seconds=True)

    workers = [start() for _ in range(WORKERS if times > 5 else 3)]
    for worker in workers:
        worker.wait_for_log("started")
    data = json.dumps({"v": 1, "args": [stage.runs.path, 0.02]})
    for n in range(SCHEDULES):
        kind: dict[str, Any] = {"cron": "* * * * *"} if n % 2 else {"every": 1}
        client.schedule_set(
            f"s{n}", "q", "record_self", data, missed="all", retries=1000, **kind
        )
    kills = leaders = 0
    for n in range(times):
        stage.wait(lambda n=n: ticked(client) > 2 * n, f"{2 * n} ticks", LONG)
        # By turns whoever looks after cron, any worker, and any child.
        leader = (client.redis.get("ql:ticker") or b"").decode()
        at = chance.randrange(len(workers))
        if n % 3 == 0:
            known = [k for k, one in enumerate(workers) if f"-{one.pid}-" in leader]
            leaders += len(known)
            at = known[0] if known else at
        if n % 3 < 2:
            workers[at].signal("KILL")
            workers[at] = start()
            kills += 1
        elif children := workers[at].family()[1:]:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)
                kills += 1
    client.schedule_pause([f"s{n}" for n in range(SCHEDULES)])
    found = client.schedule_list(0, SCHEDULES).schedules
    names = [name.decode() for name in client.redis.scan_iter("ql:j:s*", 1000)]
    jids = [name[5:] for name in names if not name.endswith("-history")]
    jobs = wait_for_all(stage, jids)
    ticks: dict[str, list[int]] = {schedule.id: [] for schedule in found}
    for job in jobs:
        ticks[str(job.spawned_from)].append(int(job.history[0]["when"]))
    doubled = sum(len(each) - len(set(each)) for each in ticks.values())
    spans = {name: range(min(each), max(each) + 1) for name, each in ticks.items()}
    left_out = sum(len(spans[name]) - len(set(ticks[name])) for name in ticks)
    miscounted = sum(one.count != len(ticks[one.id]) for one in found)
    tally.note("kills", kills)
    tally.note("of those who looked after cron", leaders)
    tally.exactly("schedules", len(found), SCHEDULES)
    tally.at_least("ticks", len(jobs), SCHEDULES * times)
    tally.exactly("ticks with more than one job", doubled, 0)
    tally.exactly("ticks left out", left_out, 0)
    tally.exactly("schedules that have miscounted", miscounted, 0)
    tally_complete(tally, jobs)
    late = Counter(run.name for run in stage.runs.all())
    tally.note("ticks recovered from a kill", sum(n > 1 for n in late.values()))


def ticked(client: Client) -> int:
    """Return how often the schedule has ticked that is the furthest behind."""
    found = client.schedule_list(0, SCHEDULES).schedules
    return min(schedule.count for schedule in found)
