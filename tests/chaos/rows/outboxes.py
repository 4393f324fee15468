"""The outbox between commits and the queue: its producers, server and sweeper die."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import time
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.row import DURABLE, row
from tests.chaos.rows.shared import LONG
from tests.outbox.project import Project
from tests.real_servers import poll

if TYPE_CHECKING:
    import subprocess

    from tests.chaos.tally import Tally
    from tests.worker.stage import Stage

PRODUCERS = 3
LOAD = ("-m", "tests.outbox.producer", "load")
# What a killed producer may be in the midst of, in seconds.
AROUND_A_COMMIT = 0.05


@row(times=30, quick=3, pools=("prefork",), server=DURABLE)
def outbox(stage: Stage, tally: Tally, times: int) -> None:
    """Producers are killed around commits, the server is away, the sweeper is killed."""
    chance = random.Random(times)
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(stage.folder / "db.sqlite3"),
        "OPTIONS": {"timeout": 60, "transaction_mode": "IMMEDIATE"},
    }
    project = Project(stage.folder, database, stage.server.url)
    kills = {"producer": 0, "server": 0, "sweeper": 0}
    with ExitStack() as stack:
        # This one runs no jobs of theirs, so that the queue keeps their order: it sweeps.
        stack.enter_context(project.worker("nothing", name="sweeping"))
        producers: list[subprocess.Popen[str]] = []

        def start() -> None:
            name = str(len(producers) + 1)
            words = (*LOAD, name, "0.005")
            producers.append(
                stack.enter_context(project.process(f"load-{name}", *words))
            )

        for _ in range(PRODUCERS):
            start()
        for turn in range(times):
            wait_for_commits(project, producers)
            if turn % 3 == 0:
                kills["producer"] += 1
                victim = chance.choice([each for each in producers if is_alive(each)])
                time.sleep(chance.uniform(0, AROUND_A_COMMIT))
                victim.kill()
                victim.wait(LONG)
                start()
            elif turn % 3 == 1:
                kills["server"] += 1
                stage.server.kill()
                wait_for_commits(project, producers)
                stage.server.start()
            else:
                kills["sweeper"] += kill_sweeper(project)
        for each in producers:
            if is_alive(each):
                each.communicate("\n", LONG)
        project.wait_for_empty_outbox()
    committed = project.committed()
    queued = project.queued(stage.server)
    with project.worker("--concurrency", "1", "orders", name="running"):
        poll(
            lambda: len(project.runs()) >= len(committed),
            what="all that is committed has run",
            seconds=LONG,
        )
        project.run_last()
    runs = [number for _, number in project.runs() if number >= 0]
    for what, number in kills.items():
        tally.note(f"kills of a {what}", number)
    tally.at_least("commits", len(committed), 10 * times)
    tally.exactly("committed, but not run", len(set(committed) - set(runs)), 0)
    tally.exactly("run, but not committed", len(set(runs) - set(committed)), 0)
    tally.exactly("run more than once", len(runs) - len(set(runs)), 0)
    overtaken = sum(
        overtakers(queued, str(name + 1)) for name in range(PRODUCERS + times)
    )
    tally.exactly("jobs that have overtaken others of their process", overtaken, 0)


def wait_for_commits(project: Project, producers: list[subprocess.Popen[str]]) -> None:
    """Return when each of the living producers has committed something more."""
    names = [n + 1 for n, each in enumerate(producers) if is_alive(each)]
    before = commits(project)
    poll(
        lambda: all(
            commits(project).get(str(name), 0) > before.get(str(name), 0) + 3
            for name in names
        ),
        what="producers commit",
        seconds=LONG,
    )


def is_alive(process: subprocess.Popen[str]) -> bool:
    """Return whether a process has not ended."""
    return process.poll() is None


def commits(project: Project) -> dict[str, int]:
    """Return how many rows each producer has committed."""
    connection = sqlite3.connect(project.folder / "db.sqlite3", timeout=60)
    try:
        query = "SELECT producer, count(*) FROM shop_order GROUP BY producer"
        return dict(connection.execute(query).fetchall())
    finally:
        connection.close()


def kill_sweeper(project: Project) -> int:
    """Kill the process that sweeps, if there is one just now; return how many."""
    pids = re.findall(r"sweeping outboxes.*?pid=(\d+)", project.log_of("sweeping"))
    with suppress(ProcessLookupError):
        if pids:
            os.kill(int(pids[-1]), signal.SIGKILL)
            return 1
    return 0


def overtakers(queued: list[tuple[str, int]], producer: str) -> int:
    """Return how many jobs of a process stand behind one that it has put later."""
    numbers = [number for name, number in queued if name == producer]
    return sum(b < a for a, b in pairwise(numbers))
