"""Processes killed with signal 9."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.chaos.rows.shared import (
    LONG,
    left_alive,
    now,
    tally_complete,
    tally_runs,
    wait_for_all,
)

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

BATCH = 100
"""The most jobs that a process holds finished and not settled."""


@row(times=25, quick=4)
def child_killed(stage: Stage, tally: Tally, times: int) -> None:
    """kill -9 of the process that runs a job; the next attempt starts within 1 s."""
    # Not the end of a lock brings the jobs back.
    stage.client.config_set("heartbeat", 3600)
    stage.start(concurrency=2, verbosity=1)
    jids, pauses = [], []
    for n in range(times):
        klass = "hold" if n % 2 else "ahold"
        jids.append(stage.put_hold(klass, n, f"latch-{n}", retries=0))
        victim = stage.run_of(n).pid
        killed = now()
        os.kill(victim, signal.SIGKILL)
        pauses.append(stage.run_of(n, times=2).start - killed)
        stage.latch(f"latch-{n}").open()
        # What is finished and not settled would be run again: that is another row.
        stage.job_when(jids[-1], "complete")
    tally.note("kills", times)
    tally.at_most("longest time to the next start, seconds", max(pauses), 1)
    tally.note("usual time to the next start, seconds", sorted(pauses)[times // 2])
    tally_complete(tally, wait_for_all(stage, jids))
    tally_runs(stage, tally, range(times), repeated=0)


@row(times=25, quick=4)
def child_killed_under_load(stage: Stage, tally: Tally, times: int) -> None:
    """kill -9 of any child at any moment while it runs short jobs in batches."""
    stage.client.config_set("heartbeat", 3600)
    chance = random.Random(times)
    each = 200
    jids = stage.put_records(range(times * each), retries=0)
    worker = stage.start(concurrency=2, verbosity=1)
    kills = 0
    for n in range(times):
        stage.wait(
            lambda n=n: len(stage.runs.ended()) >= n * each, "some have run", LONG
        )
        children = stage.wait(lambda: worker.family()[1:], "there are children")
        with suppress(ProcessLookupError):
            os.kill(chance.choice(children), signal.SIGKILL)
            kills += 1
    jobs = wait_for_all(stage, jids)
    tally.at_least("kills that found their process", kills, 0.8 * times)
    tally_complete(tally, jobs)
    # What one process had finished and the server did not know yet.
    tally_runs(stage, tally, range(times * each), repeated=times * BATCH)
    tally.exactly("retries used up", sum(job.remaining != 0 for job in jobs), 0)


@row(times=10, quick=1)
def worker_killed(stage: Stage, tally: Tally, times: int) -> None:
    """kill -9 of the whole worker; its jobs run elsewhere when their locks have ended."""
    heartbeat, grace = 2, 1
    # The victim may be the one that watches when locks end. Then it is found by the next
    # worker that looks by itself, as all do every five seconds.
    look = 5
    stage.client.config_set("heartbeat", heartbeat)
    stage.client.config_set("grace-period", grace)
    jids, pauses, survivors = [], [], 0
    names = []
    other = stage.start(concurrency=4, verbosity=1)
    for n in range(times):
        mine = [f"{n}-{k}" for k in range(4)]
        for name in mine:
            klass = "hold" if name.endswith(("0", "2")) else "ahold"
            jids.append(stage.put_hold(klass, name, f"latch-{n}", retries=5))
        for name in mine:
            stage.run_of(name)
        names += mine
        # The next one is ready and has nothing to do.
        victim, other = other, stage.start(concurrency=4, verbosity=1)
        other.wait_for_log("started")
        family = victim.family()
        victim.signal("KILL")
        killed = now()
        pauses += [stage.run_of(name, times=2).start - killed for name in mine]
        survivors += left_alive(stage, family)
        stage.latch(f"latch-{n}").open()
        for name in mine:
            stage.end_of(name, times=2)
    tally.note("kills", times)
    tally.at_most(
        "longest time to the next start, seconds",
        max(pauses),
        heartbeat + grace + look + 1,
    )
    tally.note(
        "usual time to the next start, seconds", sorted(pauses)[len(pauses) // 2]
    )
    tally.exactly("processes left behind", survivors, 0)
    tally_complete(tally, wait_for_all(stage, jids))
    tally_runs(stage, tally, names, repeated=0)
