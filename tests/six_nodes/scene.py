"""A cluster of six nodes, with the workers and producers of one project on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from django_qless.core import Client
from django_qless.core.cluster import cluster_client
from tests.clusters import Cluster
from tests.real_servers import poll
from tests.six_nodes import QUEUES
from tests.six_nodes.judge import ticks
from tests.six_nodes.records import Acknowledgements, Ledger

ROOT = Path(__file__).parents[2]

#: A queue, its alias and how its hash tag begins.
ALIASES = dict(
    zip(QUEUES, [("default", "ql"), ("mail", "mail"), ("reports", "r")], strict=True)
)

WORKERS = ("1", "2")

#: Those that must consume: each worker in each alias.
CONSUMERS = {(queue, worker) for queue in QUEUES for worker in WORKERS}

#: Seconds for what takes few where nothing else runs.
PATIENCE = 600.0


class Scene:
    """Six nodes, three aliases, two workers and two producers; a context manager."""

    def __init__(
        self, folder: Path, kind: str, *, replicas: int, pool: str, pause: float
    ) -> None:
        self.folder, self.kind = folder, kind
        self.replicas, self.pool, self.pause = replicas, pool, pause
        self.cluster = Cluster(kind)
        self.ledger = Ledger(folder / "ledger")
        self.acknowledged = Acknowledgements(folder / "acknowledged")
        self.prefixes: dict[str, str] = {}
        self.clients: dict[str, Client] = {}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.producers: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Scene:
        try:
            self._stack.callback(self.ledger.close)
            self._stack.callback(self.acknowledged.close)
            self._stack.enter_context(self.cluster)
            # Each alias starts on another primary.
            for node, (queue, (_, tag)) in zip(
                self.cluster.nodes, ALIASES.items(), strict=False
            ):
                prefix = self.prefixes[queue] = self.cluster.prefix_on(node, tag)
                server = cluster_client(self.cluster.addresses, prefix)
                self.clients[queue] = Client(server, prefix, patience=60)
                self._stack.callback(self.clients[queue].close)
            self.workers = [self._worker(name) for name in WORKERS]
            self.producers = [self._producer(kind) for kind in ("blocking", "asyncio")]
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.args = (f"{error}\n{self.logs()}",)
        self._stack.close()

    @property
    def settings(self) -> dict[str, Any]:
        """The aliases, by name."""
        more: dict[str, Any] = {"REPLICAS": self.replicas} if self.replicas else {}
        return {
            ALIASES[queue][0]: {
                "CLUSTER": self.cluster.urls,
                "PREFIX": prefix,
                **more,
            }
            for queue, prefix in self.prefixes.items()
        }

    def _worker(self, name: str) -> subprocess.Popen[bytes]:
        words = ("-m", "django", "qless_worker", "--no-reload", "--name", f"w{name}")
        words = (*words, "--all-aliases")
        return self._process(
            f"worker-{name}",
            *(*words, "--pool", self.pool, "--concurrency", "1"),
            WORKER=name,
        )

    def _producer(self, kind: str) -> subprocess.Popen[bytes]:
        return self._process(
            f"producer-{kind}",
            *("-m", "tests.six_nodes.producer", str(self.folder / "acknowledged")),
            *(str(self.pause), kind),
        )

    def _process(
        self, name: str, *words: str, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a Python process of the project; its output goes into a file."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "tests.six_nodes.settings",
                    "QLESS": json.dumps(self.settings),
                    "LEDGER": str(self.folder / "ledger"),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._stack.callback(end, process)
        return process

    def logs(self) -> str:
        """Return the end of what each process logged."""
        return "\n".join(
            f"-- {log.name}\n{log.read_text(errors='replace')[-1500:]}"
            for log in sorted(self.folder.glob("*.log"))
        )

    def count(self, queue: str = "") -> int:
        """Return how many jobs were acknowledged, of one queue or of all."""
        self.acknowledged.read()
        counts = self.acknowledged.of_queue
        return counts[queue] if queue else counts.total()

    def answers(self, queue: str) -> int:
        """Return how many calls for a queue were acknowledged or refused."""
        self.acknowledged.read()
        return self.acknowledged.answers[queue]

    def wait_for_puts(self, goal: int, queue: str = "") -> None:
        """Return when a number of jobs have been acknowledged in all."""
        poll(
            lambda: self.count(queue) >= goal,
            what=f"{goal} puts are acknowledged in {queue or 'all queues'}",
            seconds=PATIENCE,
        )

    def wait_for_more(self, queue: str, more: int = 20) -> None:
        """Return when a number of further jobs of a queue have been acknowledged."""
        self.wait_for_puts(self.count(queue) + more, queue)

    def wait_for_consumers(self, since: float) -> dict[tuple[str, str], float]:
        """Return when each worker has run jobs of each queue: after how many seconds."""
        return poll(
            lambda: self.ledger.waits_since(since, CONSUMERS),
            what="all workers run jobs of all queues",
            seconds=PATIENCE,
        )

    def finish(self) -> None:
        """End the producers, and then the workers when they have nothing to do."""
        for producer in self.producers:
            producer.terminate()
        for producer in self.producers:
            assert producer.wait(PATIENCE) == 0, "a producer has failed"
        self.acknowledged.read()
        wanted, ended = self.acknowledged.names, time.time()
        poll(
            lambda: self._has_run(wanted) or self._is_idle(),
            what="what was acknowledged has run, or nothing is left to run",
            seconds=PATIENCE,
        )
        poll(lambda: self._ticks_since(ended), what="each schedule has ticked again")
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            assert worker.wait(60) == 0, "a worker has failed"
        self.ledger.read()

    def _has_run(self, names: set[str]) -> bool:
        self.ledger.read()
        # A job whose reservation was lost on its way to a worker waits for its lock to end.
        return names <= self.ledger.names and not ticks(self.ledger)[1]

    def _ticks_since(self, moment: float) -> bool:
        self.ledger.read()
        late = [run for run in self.ledger.runs[-100:] if run.at > moment]
        return {run.queue for run in late if run.name.startswith("tick-")} == {*QUEUES}

    def _is_idle(self) -> bool:
        """Return whether no job can run now or later by itself."""
        return not any(
            (queue.waiting, queue.running, queue.stalled, queue.scheduled)
            != (0, 0, 0, 0)
            for client in self.clients.values()
            for queue in client.queues()
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, for certain."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
