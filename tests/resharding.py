"""Slots that move and primaries that die, under load: producers and workers on a cluster."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from django_qless.core import Client, NotReplicated, QlessError
from django_qless.core.cluster import cluster_client
from django_qless.core.replication import Replication
from tests import failover
from tests.clusters import Cluster
from tests.failover import QUEUES, workers
from tests.real_servers import poll

WITHIN = 10.0
"""Seconds after the promotion in which each worker must run jobs again."""

PREFIX = "{ql}:"

JOBS = f"""{failover.JOBS}
from django_qless import current_job

@job("q1", name="tick", every=1)
def tick():
    note("tick:" + current_job().jid)
"""


class Trouble(NamedTuple):
    """How much of everything happens."""

    reshards: int
    failovers: int
    jobs: int


@dataclass(frozen=True)
class Outcome:
    """What became of the jobs."""

    #: For each failover, seconds until both workers ran jobs again.
    waits: list[float]
    acknowledged: int
    ticks: int
    #: How many runs there were of jobs and ticks that had run before.
    repeated: int


class Producer(threading.Thread):
    """Puts jobs until it is told to end; knows which were acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        server = cluster_client(cluster.addresses, PREFIX, socket_timeout=2)
        self.client = Client(
            server, PREFIX, patience=3, replication=Replication(1, 0.5)
        )
        self.acknowledged: set[str] = set()
        self.done = threading.Event()

    def run(self) -> None:
        """Put one job after the other into the queues in turn."""
        number = 0
        while not self.done.is_set():
            number += 1
            name = str(number)
            # Every tenth waits for the one before it.
            needed = [f"j{number - 1}"] if number % 10 == 0 else []
            try:
                try:
                    self.client.put(
                        *("", QUEUES[number % 2], f"j{name}", "note"),
                        json.dumps({"v": 1, "args": [name]}),
                        depends=needed,
                    )
                except NotReplicated as error:
                    error.repeat()
                self.acknowledged.add(name)
            except QlessError:
                pass  # Not acknowledged.
            self.done.wait(0.002)

    def wait_for(self, more: int) -> None:
        """Return when so many more puts have been acknowledged."""
        goal = len(self.acknowledged) + more
        poll(
            lambda: len(self.acknowledged) >= goal,
            what="puts are acknowledged",
            seconds=600,
        )

    def finish(self) -> None:
        """End, with the job that is being put."""
        self.done.set()
        self.join()
        self.client.close()


def runs(ledger: Path) -> list[tuple[str, float]]:
    """Return the name and the time of each run of a job that was put."""
    return [each for each in failover.runs(ledger) if not each[0].startswith("tick:")]


def first_runs(ledger: Path, after: float) -> list[float]:
    """Return how long each queue's jobs have not run; nothing before all have."""
    late = [(int(name) % 2, at - after) for name, at in runs(ledger) if at > after]
    firsts = [[at for queue, at in late if queue == each] for each in (0, 1)]
    return [min(each) for each in firsts] if all(firsts) else []


def fail_over(cluster: Cluster, producer: Producer, ledger: Path) -> float:
    """Kill the primary, start it again when another one has its place.

    Returns how many seconds after the promotion all workers ran jobs again.
    """
    killed, _ = cluster.kill_primary(PREFIX)
    promoted = time.time()
    waits = poll(
        lambda: first_runs(ledger, promoted), what="both workers run jobs again"
    )
    killed.start()
    cluster.wait_until_whole()
    producer.wait_for(20)
    return max(waits)


def move(cluster: Cluster, producer: Producer, ledger: Path) -> None:
    """Move the slot; return when the queue goes on, and replicas have all of it."""
    cluster.move(PREFIX)
    moved = time.time()
    # A replica that has what came later has all that was moved, too.
    producer.wait_for(20)
    poll(
        lambda: first_runs(ledger, moved),
        what="both workers run jobs where the slot is now",
    )


def trouble_under_load(
    folder: Path, kind: str, trouble: Trouble, pool: str = "prefork"
) -> Outcome:
    """Move the slot and kill its primary; return when all acknowledged jobs have run."""
    with (
        Cluster(kind) as cluster,
        workers(cluster.settings, folder, pool, JOBS) as ledger,
    ):
        producer = Producer(cluster)
        producer.start()
        poll(lambda: len(runs(ledger)) > 60, what="there is load")
        waits: list[float] = []
        for number in range(trouble.reshards):
            move(cluster, producer, ledger)
            if number * trouble.failovers // trouble.reshards == len(waits):
                waits.append(fail_over(cluster, producer, ledger))
        producer.wait_for(trouble.jobs - len(producer.acknowledged))
        producer.finish()
        poll(
            lambda: producer.acknowledged <= {name for name, _ in runs(ledger)},
            what="each acknowledged job has run",
            seconds=600,
        )
        counts = Counter(name for name, _ in failover.runs(ledger))
        return Outcome(
            waits,
            len(producer.acknowledged),
            sum(name.startswith("tick:") for name in counts),
            sum(count - 1 for count in counts.values()),
        )
