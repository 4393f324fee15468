"""Jobs that end their process, and what they leave behind."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.chaos.row import row
from tests.worker.processes import is_alive

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

CAUSES = {"exit": "code 7", "segfault": "SIGSEGV", "kill": "SIGKILL"}


@row(times=9, quick=0)
def deadly_jobs(stage: Stage, tally: Tally, times: int) -> None:
    """os._exit, a segmentation fault, kill -9: a named end, and the worker goes on."""
    worker = stage.start(concurrency=2, verbosity=1)
    bad, good = {}, []
    for n in range(times):
        cause = list(CAUSES)[n % len(CAUSES)]
        klass = "adie" if n % 2 else "die"
        bad[stage.put_run(klass, f"bad-{n}", cause, retries=0)] = cause
        good.append(stage.put_run("arecord" if n % 2 else "record", n, retries=0))
    named = attempts = 0
    for jid, cause in bad.items():
        job = stage.job_when(jid, "failed")
        assert job.failure is not None
        named += job.failure.group == "worker-crash" and (
            CAUSES[cause] in job.failure.message
        )
        attempts = max(attempts, job.crashes)
    done = [stage.job_when(jid, "complete") for jid in good]
    tally.exactly("ends in worker-crash with the cause", named, times)
    tally.at_most("attempts", attempts, 4)
    tally.exactly("other jobs complete", len(done), times)
    tally.exactly("retries they used up", sum(job.remaining != 0 for job in done), 0)
    tally.exactly("the worker goes on", str(worker.process.poll()), "None")


@row(times=10, quick=1)
def grandchildren(stage: Stage, tally: Tally, times: int) -> None:
    """Jobs start processes and are killed, by turns with their whole worker."""
    orphans = 0
    for n in range(times):
        klass = "ahave_child" if n % 2 else "have_child"
        jid = stage.put_run(klass, f"parent-{n}", stage.latch().path, retries=0)
        worker = stage.start()
        run = stage.wait(lambda n=n: find(stage, f"parent-{n}:"), "it runs")
        grandchild = int(run.name.partition(":")[2])
        victim = run.pid if n % 4 < 2 else worker.pid
        os.kill(victim, signal.SIGKILL)
        try:
            stage.wait(
                lambda pid=grandchild: not is_alive(pid), "the grandchild is gone", 5
            )
        except AssertionError:
            orphans += 1
        worker.close()
        stage.client.cancel(jid)
    tally.note("kills", times)
    tally.exactly("orphans", orphans, 0)


def find(stage: Stage, prefix: str) -> object:
    """Return the run whose name begins so, if there is one."""
    return next((run for run in stage.runs.all() if run.name.startswith(prefix)), None)
