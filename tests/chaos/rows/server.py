"""Servers that are killed, that are away for long, and that forget their scripts."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from django_qless.core.exceptions import QlessError
from tests.chaos.row import DURABLE, row
from tests.chaos.rows.shared import (
    LONG,
    now,
    tally_complete,
    tally_runs,
    wait_for_all,
)
from tests.worker.processes import processor_seconds

if TYPE_CHECKING:
    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

WITHIN = 5.0
"""Seconds after the server's return in which each worker must run jobs again."""


class Producer(threading.Thread):
    """Puts recorded jobs in small batches, and knows which were acknowledged."""

    def __init__(self, stage: Stage, queues: list[str]) -> None:
        super().__init__(daemon=True)
        self.stage = stage
        self.queues = queues
        self.jids: list[str] = []
        self.names: list[str] = []
        self.errors: list[QlessError] = []
        self.done = threading.Event()

    def run(self) -> None:
        """Put until told to end; what is refused or unanswered is not counted."""
        number = 0
        while not self.done.is_set():
            queue = self.queues[number % len(self.queues)]
            names = [f"{number}.{n}" for n in range(10)]
            number += 1
            try:
                jids = self.stage.put_records(names, queue=queue)
            except QlessError as error:
                self.errors.append(error)
                time.sleep(0.05)
                continue
            self.jids += jids
            self.names += names
            # As fast as the workers, more or less: the queues are not to grow for ever.
            time.sleep(0.01)

    @staticmethod
    def turn(name: str) -> int:
        """Return the number of the batch to which a job belongs."""
        return int(name.partition(".")[0])

    def finish(self) -> None:
        """End, when the last batch has been put."""
        self.done.set()
        self.join(LONG)


@row(times=5, quick=1, server=DURABLE)
def server_killed(stage: Stage, tally: Tally, times: int) -> None:
    """kill -9 of the server under load, with AOF; all workers consume soon again."""
    # Each has a queue of its own, so that none can hide behind another.
    workers = [f"q{n}" for n in range(3)]
    for queue in workers:
        stage.start(queues=[queue], concurrency=2)
    producer = Producer(stage, workers)
    producer.start()
    late = 0.0
    for _ in range(times):
        so_far = len(stage.runs.ended())
        stage.wait(
            lambda so_far=so_far: len(stage.runs.ended()) > so_far + 300,
            "there is load",
            LONG,
        )
        stage.server.kill()
        time.sleep(1.0)
        stage.server.start()
        late = max(late, *consuming_again(stage, len(workers)))
    producer.finish()
    jobs = wait_for_all(stage, producer.jids)
    tally.note("kills", times)
    tally.at_most("longest time until a worker consumes, seconds", late, WITHIN)
    tally_complete(tally, jobs)
    # A put that was not acknowledged may have been carried out all the same.
    known = set(producer.names)
    stray = {run.name for run in stage.runs.all()} - known
    tally.at_most("unacknowledged jobs that ran", len(stray), 10 * times)
    tally_runs(stage, tally, known | stray, repeated=0)


def consuming_again(stage: Stage, workers: int) -> list[float]:
    """Return for each worker the seconds from now until it begins with a job."""
    began = now()
    waits = []
    for at in range(workers):

        def first(at: int = at) -> float | None:
            starts = [
                run.start
                for run in stage.runs.all()
                if run.start > began and Producer.turn(run.name) % workers == at
            ]
            return min(starts, default=None)

        waits.append(stage.wait(first, "the worker consumes again") - began)
    return waits


@row(times=20, quick=1)
def flushed(stage: Stage, tally: Tally, times: int) -> None:
    """SCRIPT FLUSH and FUNCTION FLUSH under load, for some seconds.

    Each 50 ms after a client has loaded the core again: however busy the machine is, it is
    seldom gone twice between a load and the call behind it.
    """
    workers = [stage.start(concurrency=2, verbosity=1) for _ in range(2)]
    producer = Producer(stage, ["q"])
    producer.start()
    redis = stage.server.client()
    flushes = 0
    until = now() + times
    while now() < until:
        redis.script_flush()
        redis.function_flush()
        flushes += 1
        stage.wait(redis.function_list, "a client loads the core again")
        time.sleep(0.05)
    producer.finish()
    jobs = wait_for_all(stage, producer.jids)
    redis.close()
    tally.note("flushes of both", flushes)
    tally.exactly("puts that failed", len(producer.errors), 0)
    errors = [
        line
        for worker in workers
        for line in worker.output.splitlines()
        if (" WARNING " in line and "append-only" not in line) or " ERROR " in line
    ]
    for line in errors[:3]:
        tally.note("logged", line)
    tally.exactly("warnings and errors logged", len(errors), 0)
    tally_complete(tally, jobs)
    tally_runs(stage, tally, producer.names, repeated=0)


@row(times=30, quick=2, server=DURABLE)
def server_away(stage: Stage, tally: Tally, times: int) -> None:
    """The server is away for some seconds; the worker waits without haste."""
    held = [
        stage.put_hold("hold", "held", queue="busy"),
        stage.put_hold("ahold", "aheld", queue="busy"),
    ]
    workers = {
        "idle": stage.start(queues=["idle"], concurrency=2),
        "busy": stage.start(queues=["busy", "more"], concurrency=4),
    }
    for name in ("held", "aheld"):
        stage.run_of(name)
    warm = [stage.put_run("record", f"warm-{queue}", queue=queue) for queue in workers]
    wait_for_all(stage, warm)
    families = {queue: worker.family() for queue, worker in workers.items()}
    stage.server.stop()
    before = {queue: processor_seconds(pids) for queue, pids in families.items()}
    began = now()
    time.sleep(times)
    gone = now() - began
    shares = {
        queue: 100 * (used(families[queue]) - before[queue]) / gone for queue in workers
    }
    stage.server.start()
    back = now()
    after = []
    for queue in ("idle", "more"):
        after.append(stage.put_run("arecord", f"after-{queue}", queue=queue))
    waits = [stage.run_of(f"after-{queue}").start - back for queue in ("idle", "more")]
    stage.latch().open()
    tally.note("seconds away", gone)
    # Two jobs of the busy worker wait for a latch meanwhile, which takes some as well.
    tally.at_most("percent of a core, idle worker", shares["idle"], 5)
    tally.note("percent of a core, worker with two waiting jobs", shares["busy"])
    tally.at_most("longest time until a worker consumes, seconds", max(waits), WITHIN)
    tally_complete(tally, wait_for_all(stage, [*held, *warm, *after]))
    for jid in held:
        tally.exactly(
            "what happened to a job that ran meanwhile",
            " ".join(stage.what_happened(jid)),
            "put popped done",
        )


def used(pids: list[int]) -> float:
    """Return the processor time of those of these processes that are still there."""
    total = 0.0
    for pid in pids:
        try:
            total += processor_seconds([pid])
        except FileNotFoundError:
            continue
    return total
