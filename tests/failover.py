"""A failover under load: producers and workers on servers that sentinels watch."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio.sentinel
import redis.sentinel

from django_qless.core import AsyncClient, Client, NotReplicated, QlessError
from django_qless.core.replication import Replication
from tests.real_servers import poll
from tests.sentinels import Watched
from tests.worker.processes import ROOT

WITHIN = 5.0
"""Seconds after the promotion in which each worker must run jobs again."""

QUEUES = ("q0", "q1")

SAFE = Replication(1, 0.3)

JOBS = """
import os, time
from django_qless import job

@job("q0", name="note")
def note(name):
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{name} {time.time()}\\n".encode())
    os.close(ledger)
"""

SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
INSTALLED_APPS += ["django_qless", "shop"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3"}}}}
QLESS = {{"default": {!r}}}
"""


class Producer(threading.Thread):
    """Puts jobs until it is told to end; knows which were acknowledged."""

    kind = "s"

    def __init__(self, group: Watched) -> None:
        super().__init__(daemon=True)
        self.group = group
        self.acknowledged: set[str] = set()
        self.done = threading.Event()

    def run(self) -> None:
        """Put one job after the other into the queues in turn."""
        manager = redis.sentinel.Sentinel(self.group.addresses)
        server = manager.master_for("main", socket_timeout=2)
        with Client(server, patience=1, replication=SAFE) as client:
            for name, job in self.jobs():
                try:
                    try:
                        client.put("", *job)
                    except NotReplicated:
                        client.put("", *job, absent=True)
                    self.acknowledged.add(name)
                except QlessError:
                    pass  # Not acknowledged.

    def jobs(self) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
        """Yield names, and what is put: queue, jid, job type, data."""
        for number in itertools.count():
            if self.done.is_set():
                return
            name = f"{number}{self.kind}"
            data = json.dumps({"v": 1, "args": [name]})
            yield name, (QUEUES[number % 2], f"j{name}", "note", data)
            self.done.wait(0.004)

    def finish(self) -> None:
        """End, with the job that is being put."""
        self.done.set()
        self.join()


class AsyncProducer(Producer):
    """The same by asyncio."""

    kind = "a"

    def run(self) -> None:
        """Put one job after the other into the queues in turn."""
        asyncio.run(self.put())

    async def put(self) -> None:
        """Put one job after the other into the queues in turn."""
        manager = redis.asyncio.sentinel.Sentinel(self.group.addresses)
        server = manager.master_for("main", socket_timeout=2)
        async with AsyncClient(server, patience=1, replication=SAFE) as client:
            for name, job in self.jobs():
                try:
                    try:
                        await client.put("", *job)
                    except NotReplicated:
                        await client.put("", *job, absent=True)
                    self.acknowledged.add(name)
                except QlessError:
                    pass  # Not acknowledged.
        await server.aclose()
        for each in manager.sentinels:
            await each.aclose()


@contextmanager
def workers(
    settings: dict[str, Any], folder: Path, pool: str = "prefork", jobs: str = JOBS
) -> Iterator[Path]:
    """Run one worker for each queue, as a Django project does; yield the ledger.

    `settings` are those of the alias, `jobs` is the module of jobs.
    """
    (folder / "shop").mkdir()
    (folder / "shop/__init__.py").touch()
    (folder / "shop/jobs.py").write_text(jobs)
    (folder / "settings.py").write_text(SETTINGS.format(settings))
    ledger = folder / "ledger"
    ledger.touch()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "LEDGER": str(ledger),
    }
    command = [sys.executable, "-m", "django", "qless_worker"]
    command += ["--pool", pool, "--concurrency", "1"]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for queue in QUEUES:
            with (folder / f"{queue}.log").open("wb") as log:
                options: dict[str, Any] = {"stdout": log, "stderr": log}
                running.append(
                    subprocess.Popen([*command, queue], env=environment, **options)
                )
        yield ledger
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(30)


def runs(ledger: Path) -> list[tuple[str, float]]:
    """Return the name and the time of each run."""
    lines = [line.split() for line in ledger.read_text().splitlines()]
    return [(line[0], float(line[1])) for line in lines if len(line) == 2]


@dataclass(frozen=True)
class Outcome:
    """What became of the jobs of a failover."""

    #: Seconds from the promotion until each worker ran jobs again, both of them.
    waits: list[float]
    acknowledged: int
    #: Names of jobs that ran more than once with the same primary.
    repeated: list[str]


def fail_over_under_load(folder: Path, with_signal: str, pool: str) -> Outcome:
    """Let the primary fail; return when each acknowledged job has run."""
    with (
        Watched(replicas=2, sentinels=3) as group,
        workers(group.settings, folder, pool) as ledger,
    ):
        producers = [Producer(group), AsyncProducer(group)]
        for producer in producers:
            producer.start()
        poll(lambda: len(runs(ledger)) > 60, what="there is load")
        group.fail(with_signal)
        failed = time.time()
        group.promoted()
        promoted = time.time()

        def again() -> list[float]:
            late = [
                (int(name[:-1]) % 2, at - promoted)
                for name, at in runs(ledger)
                if at > promoted
            ]
            firsts = [[at for queue, at in late if queue == each] for each in (0, 1)]
            return [min(each) for each in firsts] if all(firsts) else []

        waits = poll(again, what="both workers run jobs again")
        for producer in producers:
            before = len(producer.acknowledged)
            poll(
                lambda producer=producer, before=before: (
                    len(producer.acknowledged) > before + 20
                ),
                what="puts are acknowledged by the new primary and its replica",
            )
        for producer in producers:
            producer.finish()
            poll(
                lambda producer=producer: (
                    producer.acknowledged <= {name for name, _ in runs(ledger)}
                ),
                what="each acknowledged job has run",
            )
        # By each of the two primaries. The second may not know of runs that the first had
        # not yet told it of.
        counts = Counter((name, at > failed) for name, at in runs(ledger))
        return Outcome(
            waits,
            sum(len(producer.acknowledged) for producer in producers),
            [name for (name, _), count in counts.items() if count > 1],
        )
