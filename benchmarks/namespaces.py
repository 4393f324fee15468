"""A worker over six namespaces of a cluster, beside one over one namespace, in turn.

python -m benchmarks.namespaces [--server redis] [--rounds 5] [--jobs 60000]
    [--reserver round-robin]

Both run six jobs at once, of six queues: the namespaces, each with a separate worker process,
share `--concurrency 6`. Two namespaces are on each primary. Each round has both; the rate is that
from the tenth of the jobs to nine tenths of them, so that neither the start nor a queue that is
empty first counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django_qless.core import Client, Put, new_jid
from django_qless.core.cluster import cluster_client
from tests.clusters import Cluster
from tests.real_servers import available_kinds, poll

from .processes import ROOT

QUEUES = [f"q{number}" for number in range(6)]
AT_ONCE = 1000  # jobs of a put
PATIENCE = 300  # seconds for a drain


def spread(cluster: Cluster) -> dict[str, str]:
    """Return the prefix of each queue, and so its namespace."""
    primaries = cluster.primaries()
    return {
        queue: cluster.prefix_on(primaries[number % len(primaries)], queue)
        for number, queue in enumerate(QUEUES)
    }


def fill(cluster: Cluster, prefixes: dict[str, str], jobs: int) -> None:
    """Empty all nodes; put as many no-op jobs into each of the queues."""
    for node in cluster.primaries():
        node.ask("FLUSHALL")
    data = json.dumps({"v": 1, "args": [1]})
    for queue, prefix in prefixes.items():
        with Client(cluster_client(cluster.addresses, prefix), prefix) as client:
            for first in range(0, jobs // len(prefixes), AT_ONCE):
                number = min(AT_ONCE, jobs // len(prefixes) - first)
                job = (queue, "benchmarks.project.jobs.noop", data)
                client.put_many("", [Put(new_jid(), *job) for _ in range(number)])


def alias(cluster: Cluster, prefixes: dict[str, str]) -> dict[str, Any]:
    """Return the alias of QLESS: one namespace, or one for each queue."""
    if len(set(prefixes.values())) == 1:
        return {"CLUSTER": cluster.urls, "PREFIX": prefixes[QUEUES[0]]}
    namespaces = {"": prefixes[QUEUES[0]], **prefixes}
    del namespaces[QUEUES[0]]
    return {"CLUSTER": cluster.urls, "NAMESPACES": namespaces}


@contextmanager
def worker(qless: dict[str, Any], folder: Path, reserver: str) -> Iterator[None]:
    """Run the command; it ends with the block."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "django", "qless_worker", "--no-reload"),
                *("--concurrency", str(len(QUEUES)), "--reserver", reserver, *QUEUES),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "benchmarks.project.settings",
                "BENCH_QLESS": json.dumps(qless),
                "BENCH_DIRECTORY": str(folder),
                "BENCH_TICKS": str(folder / "ticks"),
            },
            stdout=output,
            stderr=output,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def rate(cluster: Cluster, prefixes: dict[str, str], jobs: int, reserver: str) -> float:
    """Return how many jobs a second the worker runs. Raises if one ran twice or never."""
    fill(cluster, prefixes, jobs)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        ticks = Path(name, "ticks")
        ticks.touch()

        def moment(share: float) -> float:
            poll(
                lambda: ticks.stat().st_size >= share * jobs,
                what=f"{share:.0%} of the jobs have run",
                seconds=PATIENCE,
            )
            return time.perf_counter()

        with worker(alias(cluster, prefixes), Path(name), reserver):
            took = -moment(0.1) + moment(0.9)
            moment(1)
        if ticks.stat().st_size != jobs:
            raise RuntimeError(f"{ticks.stat().st_size} runs of {jobs} jobs")
    return 0.8 * jobs / took


def main() -> None:
    """Start a cluster, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=available_kinds(), default="valkey")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=60_000, help="a multiple of 6")
    parser.add_argument("--reserver", default="ordered")
    chosen = parser.parse_args()
    if chosen.jobs % len(QUEUES):
        parser.error(f"--jobs {chosen.jobs} is no multiple of {len(QUEUES)}")
    with Cluster(chosen.server) as cluster:
        six = spread(cluster)
        one = dict.fromkeys(QUEUES, six[QUEUES[0]])
        ratios = []
        for number in range(chosen.rounds):
            # Which one is first changes, too.
            turns = (one, six) if number % 2 else (six, one)
            found = {
                id(each): rate(cluster, each, chosen.jobs, chosen.reserver)
                for each in turns
            }
            of_one, of_six = found[id(one)], found[id(six)]
            ratios.append(of_six / of_one)
            print(
                f"one namespace {of_one:,.0f} jobs/s, six {of_six:,.0f}; ratio "
                f"{ratios[-1]:.2f} (load {os.getloadavg()[0]:.1f})",
                flush=True,
            )
    print(
        f"{chosen.server}, {os.cpu_count()} processors: ratio "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f} "
        f"in {chosen.rounds} rounds)"
    )


if __name__ == "__main__":
    main()
