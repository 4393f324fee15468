"""Processes that are measured: started on their CPU, watched through /proc, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .instructions import OUTPUT
from .server import Server

ROOT = Path(__file__).parents[1]
CLOCK = os.sysconf("SC_CLK_TCK")


class Site:
    """The small Django project with its environment, on the server of the run."""

    def __init__(self, server: Server, directory: Path, root: Path) -> None:
        self.server = server
        self.root = root
        self.directory = directory
        self.ticks = directory / "ticks"
        self.ticks.touch()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "DJANGO_SETTINGS_MODULE": "benchmarks.project.settings",
            "BENCH_URL": server.url,
            "BENCH_DIRECTORY": str(directory),
            "BENCH_TICKS": str(self.ticks),
        }
        if server.counts:
            self.environment[OUTPUT] = str(server.counts)

    def size(self) -> int:
        """Bytes that jobs have written."""
        return self.ticks.stat().st_size

    def run(self, *words: str, beside_server: bool = False) -> str:
        """Run a Python process to its end; its output. Raises with its error text."""
        place = None if beside_server else self.server.placement.to_measured_cpu
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            preexec_fn=place,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr[-3000:]}")
        return done.stdout

    def produce(self, what: str, count: int, *, beside_server: bool = False) -> Any:
        """Run `producer.py`; what it measured."""
        words = ("-m", "benchmarks.producer", what, str(count))
        return json.loads(self.run(*words, beside_server=beside_server))

    def work(self, what: str, count: int) -> Any:
        """Run `workload.py`; what it measured."""
        return json.loads(self.run("-m", "benchmarks.workload", what, str(count)))

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[Family]:
        """A Python process with its children, ended with the block."""
        family = Family([sys.executable, *words], self)
        try:
            yield family
        finally:
            family.stop()

    def worker(self, *options: str) -> contextlib.AbstractContextManager[Family]:
        """`manage.py qless_worker --concurrency 1`, and more options."""
        return self.running(
            "-m", "django", "qless_worker", "--concurrency", "1", *options
        )


@contextlib.contextmanager
def site(server: Server, root: Path = ROOT) -> Iterator[Site]:
    """An empty server and a fresh folder, in memory where there is such a place.

    `root` is where the package and these benchmarks are imported from.
    """
    server.empty()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="django-qless-bench-", dir=memory if memory.is_dir() else None
    ) as directory:
        yield Site(server, Path(directory), root)


class Family:
    """A process that was started here, and its descendants."""

    def __init__(self, argv: list[str], site: Site) -> None:
        self._log = site.directory / "output"
        self.started = time.time()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                cwd=site.root,
                env=site.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=site.server.placement.to_measured_cpu,
            )

    def check(self) -> None:
        """Raise with its last words if it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(
                f"the worker ended with {self._process.returncode}:\n{self.output()}"
            )

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def pids(self) -> list[int]:
        """The process and its living descendants."""
        found = [self._process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    found += [int(child) for child in children.read_text().split()]
        return found

    def pss(self) -> float:
        """Proportional share of memory of the family, in MB."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
        return total / 1024

    def cpu(self) -> float:
        """CPU seconds of the living members."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                fields = (
                    Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                )
                total += int(fields[11]) + int(fields[12])
        return total / CLOCK

    def stop(self) -> None:
        """TERM, then KILL for what is left of its session."""
        family = self.pids()
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        for pid in family:
            # A pid is only reused by the kernel after tens of thousands of others.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
