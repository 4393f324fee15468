"""Two thousand jobs move to another server while producers and workers go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.core import Put, new_jid
from tests import drawing
from tests.real_servers import poll
from tests.routing.conftest import DEFAULT, MAIL, REPORTS, Places, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

JOBS, KILLS = (20_000, 40) if drawing.ALL else (2_000, 3)

QUEUE = "report.x"

# Of each thing that may wait: now, later, with a key in order, with a tenant, failed.
KINDS = 5

# Seconds from the first job that the command moves until it is killed, at most.
LONGEST = 0.2

SETTINGS = """
from tests.settings import *
QLESS = {{"default": {options!r}}}
"""


class Load:
    """Producers and workers of both namespaces, and what has run."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.put: list[str] = []
        self.runs: Counter[str] = Counter()
        self.order: list[str] = []
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()

    def enqueue(self, name: str, number: int) -> None:
        """Put jobs as producers do, some of each kind."""
        puts = []
        for n in range(number):
            kind = n % KINDS
            puts.append(
                Put(
                    *(new_jid(), QUEUE, "work", "{}"),
                    delay=1 if kind == 1 else 0,
                    limit_key=f"k{n % 7}" if kind == 2 else None,
                    ordered=kind == 2,
                    fair_by=f"t{n % 3}" if kind == 3 else None,
                    tags=["some"] if kind == 4 else None,
                )
            )
        self.places[name].put_many("", puts)
        with self._lock:
            self.put += [each.jid for each in puts]

    def produce(self, name: str) -> None:
        """Put a few jobs, again and again."""
        while not self.stop.wait(0.05):
            self.enqueue(name, KINDS)

    def work(self, name: str) -> None:
        """Run jobs until none is left after the end."""
        while True:
            ended = self.stop.is_set()
            popped = self.places[name].pop(QUEUE, f"w-{name}", 5)
            for each in popped:
                with self._lock:
                    self.runs[each.jid] += 1
                each.complete()
            if not popped and ended:
                return
            if not popped:
                time.sleep(0.01)

    def start(self, run: Callable[[str], None], name: str) -> threading.Thread:
        """Run a function in a thread, and note what it raises."""

        def guarded() -> None:
            try:
                run(name)
            except BaseException as error:
                self.errors.append(error)
                raise

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread


def test_each_job_runs_once_though_the_command_is_killed(
    places: Places, tmp_path: Path
) -> None:
    options = namespaces(places.here.url, places.there.url) | {"PATIENCE": 10}
    (tmp_path / "reshard_settings.py").write_text(SETTINGS.format(options=options))
    for name in (DEFAULT, REPORTS):
        places[name].patience = 10.0
        places[name].config_set("jobs-history-count", 1)
    load = Load(places)
    load.enqueue(DEFAULT, JOBS)
    failed = fail_some(load)
    threads = [
        load.start(load.produce, DEFAULT),  # It has the setting of before.
        load.start(load.produce, REPORTS),
        load.start(load.work, REPORTS),
    ]
    try:
        killed = sum(kill_while_it_moves(places, tmp_path) for _ in range(KILLS))
    finally:
        load.stop.set()
        threads[0].join()
        threads[1].join()
        # What is left in the old place moves now.
        assert reshard(tmp_path).wait(120) == 0
        threads[2].join()
    assert killed > KILLS / 2
    poll(
        lambda: load.work(REPORTS) or not places[REPORTS].queue_counts(QUEUE).scheduled,
        what="the delayed jobs",
    )
    load.work(REPORTS)
    assert load.errors == []
    left = places[DEFAULT].queue_counts(QUEUE)
    assert (left.waiting, left.scheduled, left.running) == (0, 0, 0)
    assert places[DEFAULT].crossing_waiting() == []
    assert set(load.put) - failed == set(load.runs)
    assert set(load.runs.values()) == {1}
    assert set(places[REPORTS].failed_jobs("oops", 0, 1000).jids) == failed
    for name in (DEFAULT, MAIL, REPORTS):
        assert places[name].audit().violations == []


def kill_while_it_moves(places: Places, folder: Path) -> bool:
    """Start the command, and kill it when it has begun; return whether that was so."""

    def number() -> int:
        counts = places[DEFAULT].queue_counts(QUEUE)
        return counts.waiting + counts.scheduled

    process, most = reshard(folder), number()
    while process.poll() is None:
        now = number()
        if now < most:
            time.sleep(random.uniform(0, LONGEST))
            break
        most = max(most, now)
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def fail_some(load: Load) -> set[str]:
    """Let some jobs fail for good; return which."""
    popped = load.places[DEFAULT].pop(QUEUE, "w", 50)
    for each in popped:
        each.fail("oops", "it broke")
    return {each.jid for each in popped}


def reshard(folder: Path) -> subprocess.Popen[bytes]:
    """Start the command in a process."""
    path = os.pathsep.join([str(folder), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "django", "qless_reshard", "--queue", QUEUE],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "reshard_settings",
            "PYTHONPATH": path,
        },
        stdout=subprocess.DEVNULL,
    )
