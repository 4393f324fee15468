"""Two builds of the package on one namespace: an earlier one from a wheel, and this one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.commits import unpacked
from tests.real_servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: The earliest build that is supported: the first whose namespaces have a format.
WHEEL = HERE / "django_qless-0.1.0-py3-none-any.whl"

#: A commit whose build is to be upgraded in place of the wheel's, in a checkout:
#: QLESS_UPGRADE_FROM=main python -m pytest tests/upgrade
COMMIT = os.environ.get("QLESS_UPGRADE_FROM", "")


class Process:
    """A process of the project with one build, in a session of its own."""

    def __init__(
        self, module: str, *words: str, log: Path, environment: dict[str, str]
    ) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=HERE / "project",
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if module == "shop.client" else errors,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has logged."""
        return self.log.read_text(errors="replace")

    def ask(self, name: str, *args: Any) -> Any:
        """Have the client call a function; return what that returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, *args]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.output
        return json.loads(answer)

    def end(self) -> int:
        """Let it end in order; return the exit code."""
        self.process.terminate()
        return self.process.wait(30)

    def kill(self) -> None:
        """Kill it and all that it has started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


class Builds:
    """Starts processes of the project with either build, on a server of their own."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.processes: list[Process] = []
        self.environment: dict[str, str] = {}
        earlier = folder / "earlier"
        if COMMIT:
            with unpacked(COMMIT, "django_qless") as tree:
                shutil.copytree(tree, earlier)
        else:
            with zipfile.ZipFile(WHEEL) as wheel:
                wheel.extractall(earlier)
        self.paths = {"old": earlier, "new": ROOT}

    def start(self, build: str, module: str, *words: str) -> Process:
        """Start a Python module with this build."""
        path = [str(HERE / "project"), str(self.paths[build])]
        process = Process(
            module,
            *words,
            log=self.folder / f"{len(self.processes)}-{build}.log",
            environment={
                **os.environ,
                **self.environment,
                "PYTHONPATH": os.pathsep.join(path),
                "DJANGO_SETTINGS_MODULE": "settings",
                "SHOP_SERVER": self.server.url,
                "SHOP_BUILD": build,
            },
        )
        self.processes.append(process)
        return process

    def client(self, build: str) -> Process:
        """Start what puts jobs and asks about them."""
        client = self.start(build, "shop.client")
        assert Path(client.ask("where")).is_relative_to(self.paths[build])
        return client

    def worker(self, build: str, *words: str) -> Process:
        """Start a worker."""
        return self.start(build, "django", "qless_worker", *words)

    def close(self) -> None:
        """Kill all of them."""
        for process in self.processes:
            process.kill()


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Builds]:
    """Both builds, and a server whose functions no other test sees."""
    with Server("valkey") as server:
        builds = Builds(server, tmp_path)
        yield builds
        builds.close()
