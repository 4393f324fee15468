"""Slots that move and primaries that die, under load: nothing acknowledged is lost.

A small form is here; QLESS_ALL_CELLS=1 runs the whole one, on each kind of server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from django_qless.core import Client, NotReplicated, QlessError
from django_qless.core.cluster import cluster_client
from django_qless.core.replication import Replication
from tests.clusters import Cluster
from tests.drawing import ALL
from tests.real_servers import available_kinds, poll
from tests.worker.processes import ROOT

WITHIN = 10.0
"""Seconds after the promotion in which each worker must run jobs again."""

QUEUES = ("q0", "q1")
PREFIX = "{ql}:"

JOBS = """
import os, time
from django_qless import current_job, job

def write(name):
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{name} {time.time()}\\n".encode())
    os.close(ledger)

@job("q0", name="note")
def note(name):
    write(name)

@job("q1", name="tick", every=1)
def tick():
    write("tick:" + current_job().jid)
"""

SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
INSTALLED_APPS += ["django_qless", "shop"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3"}}}}
QLESS = {{"default": {!r}}}
"""


class Trouble(NamedTuple):
    """How much of everything happens."""

    reshards: int
    failovers: int
    jobs: int


SMALL, WHOLE = Trouble(1, 1, 0), Trouble(10, 5, 20_000)


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
            more = {"depends": [f"j{number - 1}"]} if number % 10 == 0 else {}
            try:
                try:
                    self.client.put(
                        *("", QUEUES[number % 2], f"j{name}", "note"),
                        json.dumps({"v": 1, "args": [name]}),
                        **more,  # type: ignore[arg-type]
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


@contextmanager
def workers(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Run one worker for each queue, as a Django project does; yield the ledger."""
    (folder / "shop").mkdir()
    (folder / "shop/__init__.py").touch()
    (folder / "shop/jobs.py").write_text(JOBS)
    (folder / "settings.py").write_text(SETTINGS.format(cluster.settings))
    ledger = folder / "ledger"
    ledger.touch()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "LEDGER": str(ledger),
    }
    command = [sys.executable, "-m", "django", "qless_worker", "--concurrency", "1"]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for queue in QUEUES:
            with (folder / f"{queue}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [*command, queue], env=environment, stdout=log, stderr=log
                    )
                )
        yield ledger
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(60)


def runs(ledger: Path) -> list[tuple[str, float]]:
    """Return the name and the time of each run of a job that was put."""
    lines = [line.split() for line in ledger.read_text().splitlines()]
    return [
        (line[0], float(line[1]))
        for line in lines
        if len(line) == 2 and not line[0].startswith("tick:")
    ]


def ticks(ledger: Path) -> Counter[str]:
    """Return how often the job of each tick ran."""
    words = [line.split()[0] for line in ledger.read_text().splitlines()]
    return Counter(word for word in words if word.startswith("tick:"))


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


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [(kind, WHOLE) for kind in available_kinds()] if ALL else [("valkey", SMALL)],
)
def test_slots_that_move_and_primaries_that_die(
    tmp_path: Path, kind: str, trouble: Trouble
) -> None:
    with Cluster(kind) as cluster, workers(cluster, tmp_path) as ledger:
        producer = Producer(cluster)
        producer.start()
        poll(lambda: len(runs(ledger)) > 60, what="there is load")
        waits = []
        for number in range(trouble.reshards):
            cluster.move(PREFIX)
            # A replica that has what came later has all that was moved, too.
            producer.wait_for(20)
            moved = time.time()
            poll(
                lambda moved=moved: first_runs(ledger, moved),  # type: ignore[misc]
                what="both workers run jobs where the slot is now",
            )
            if number * trouble.failovers // trouble.reshards == len(waits):
                waits.append(fail_over(cluster, producer, ledger))
        poll(
            lambda: len(producer.acknowledged) >= trouble.jobs,
            what="so many jobs were put",
            seconds=1800,
        )
        producer.done.set()
        producer.join()
        producer.client.close()
        poll(
            lambda: producer.acknowledged <= {name for name, _ in runs(ledger)},
            what="each acknowledged job has run",
            seconds=600,
        )
        counts = Counter(name for name, _ in runs(ledger))
        again = sum(count - 1 for count in [*counts.values(), *ticks(ledger).values()])
        print(
            f"{kind}: {len(producer.acknowledged)} acknowledged, {len(counts)} run, "
            f"{len(ticks(ledger))} ticks, {again} again, within "
            f"{', '.join(f'{each:.1f} s' for each in waits)}"
        )
        assert len(waits) == trouble.failovers
        # What ran in the last moment before a failover may have lost its end.
        assert again <= 5 * trouble.failovers
        assert max(waits) <= WITHIN
