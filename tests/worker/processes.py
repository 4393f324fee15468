"""Workers as processes of their own, and what can be seen of processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_qless.worker.log import REPORT
from tests.real_servers import poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from django_qless.core import Client

ROOT = Path(__file__).parents[2]


def whole_lines(log: Path) -> str:
    """Return the lines in a log that are written to their end, while more may follow."""
    lines = log.read_text(errors="replace") if log.exists() else ""
    return lines[: lines.rfind("\n") + 1]


class ForkedProcess:
    """A process that a template has forked: what the tests need of Popen."""

    def __init__(self, pid: int, status: Path) -> None:
        self.pid = pid
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with suppress(FileNotFoundError):
            return int(self._status.read_text())
        return None

    def wait(self, timeout: float = 60) -> int:
        """Return the exit code, when it has ended."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.003)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it for certain."""
        self.send_signal(signal.SIGKILL)


class Template:
    """A process that forks workers; see tests/worker/template.py."""

    def __init__(self, module: str, program: str | None = None) -> None:
        """Start it; `program` is what its workers execute when they restart in place."""
        self.module = module
        self.program = program or module
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.template", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the tests; it ends when they do, with its input.
            start_new_session=True,
        )

    def fork(
        self,
        arguments: Sequence[str],
        log: Path,
        *,
        errors: Path | None = None,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Start a worker with these arguments; its output goes to the log."""
        status = log.with_suffix(f".{next(self._numbers)}.status")
        status.unlink(missing_ok=True)
        order = {
            "module": self.program,
            "arguments": arguments,
            "log": str(log),
            "errors": str(errors or log),
            "status": str(status),
            "folder": str(folder),
            "environment": environment,
        }
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(order).encode() + b"\n")
        stdin.flush()
        return ForkedProcess(int(stdout.readline()), status)


@cache
def template_of(module: str, program: str | None = None) -> Template:
    """Return this process's template of the module, started at the first need."""
    return Template(module, program)


def django(
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    *,
    errors: Path | None = None,
    folder: Path = ROOT,
) -> ForkedProcess:
    """Start what `python -m django` with these arguments would be in the environment."""
    template = template_of("tests.worker.django_program", "django")
    return template.fork(
        arguments, log, errors=errors, folder=folder, environment=environment
    )


class WorkerProcess:
    """A worker of the smallest project, as a separate process.

    It is forked from one that has the module imported; with an environment of its own
    another Python is started for it.
    """

    def __init__(
        self,
        url: str,
        log: Path,
        *,
        module: str = "tests.worker.program",
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Start it with these options of a worker; its output goes to the log."""
        self.log = log
        arguments = [json.dumps({"url": url, **options})]
        self.process: subprocess.Popen[bytes] | ForkedProcess
        if not environment:
            self.process = template_of(module).fork(arguments, log)
            return
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return whole_lines(self.log)

    def signal(self, name: str) -> None:
        self.process.send_signal(signal.Signals[f"SIG{name}"])

    def wait(self, seconds: float = 30) -> int:
        """Return the exit code, when it has ended."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker goes on: {self.output}") from None

    def wait_for_log(self, text: str, times: int = 1) -> None:
        """Return when the worker has logged this a number of times."""
        poll(
            lambda: self.output.count(text) >= times,
            what=f"{text!r} in the worker's log",
        )

    def family(self) -> list[int]:
        """Return the ids of all its processes that run, its own first."""
        return [self.pid, *descendants(self.pid)]

    def close(self) -> None:
        """End it for certain; return when its children have ended with it.

        Until then the server may hand the next test's job to one of them.
        """
        family = self.family()
        self.process.kill()
        self.process.wait()
        poll(lambda: not any(map(is_alive, family)), what=f"{family} have ended")
        assert REPORT not in self.output, self.output


def children_of(pid: int) -> list[int]:
    """Return the processes that this one has started and that still run."""
    found: list[int] = []
    with suppress(OSError):
        # The kernel keeps them by thread.
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return sorted(found)


def descendants(pid: int) -> list[int]:
    """Return the children of a process, and theirs, and so on."""
    children = children_of(pid)
    return [*children, *(one for child in children for one in descendants(child))]


def is_alive(pid: int) -> bool:
    """Return whether this process runs (a zombie does not)."""
    return state_of(pid) not in "ZX"


def is_suspended(pid: int) -> bool:
    """Return whether this process has been stopped by a signal."""
    return state_of(pid) == "T"


def state_of(pid: int) -> str:
    """Return the letter by which the kernel tells a process's state; X: it is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return "X"
    return status.rpartition(")")[2].split()[0]


def processor_seconds(pids: list[int]) -> float:
    """Return for how long these processes have had a processor so far, in seconds.

    Those that have ended count for nothing: a child of the pool `fork` may have.
    """
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def no_new_connections(client: Client) -> Iterator[None]:
    """Break all connections but one's own, and refuse new ones, for a while."""
    redis = client.redis
    limit = redis.config_get("maxclients")["maxclients"]
    redis.config_set("maxclients", 1)
    try:
        for known in redis.client_list():
            if known["id"] != str(redis.client_id()):
                redis.client_kill_filter(_id=known["id"])
        yield
    finally:
        redis.config_set("maxclients", limit)
