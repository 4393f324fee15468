"""Runs the private server of one folder until its last user has left.

`django_qless.servers.embedded` runs this file by its path, as a separate program that
imports next to nothing: it takes a few megabytes, in its own session, and outlives the
process that started it.

Five files in the folder hold the state, four of them by their locks. The kernel releases
a lock however its holder ends, so nothing can be stale after a crash:

    start.lock      one process at a time decides whether a server must be started
    presence.lock   shared by every process that uses the server
    watcher.lock    held by the watcher; the file names its process
    server.lock     held by the server itself; the file names its process and socket
    server.log      the output of server and watcher
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # typing would double what this process imports
if TYPE_CHECKING:
    from collections.abc import Callable

START, PRESENCE, WATCHER, SERVER = (
    "start.lock",
    "presence.lock",
    "watcher.lock",
    "server.lock",
)
LOG = "server.log"
READY = "ready"
KEEP, REMOVE = "keep", "remove"

# Seconds for which a new server may be silent: it loads its data in large pieces.
STARTING = 60.0
# Seconds between two checks for users.
POLL_INTERVAL = 0.25
# After this many crashes in a row, each within a minute of the start, the watcher gives up.
MOST_CRASHES = 5


class CannotStartError(Exception):
    """The server cannot be started; the text says why."""


def open_lock(directory: str, name: str) -> int:
    """Return a descriptor of a lock file, made if it is not there."""
    return os.open(
        os.path.join(directory, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )


EXCLUSIVE, SHARED = fcntl.LOCK_EX, fcntl.LOCK_SH


def try_lock(descriptor: int, kind: int = EXCLUSIVE) -> bool:
    """Take a lock if that is possible at once."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(descriptor: int) -> bool:
    """Return True if a process holds the lock exclusively."""
    if not try_lock(descriptor, SHARED):
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def is_shared(descriptor: int) -> bool:
    """Return True if any process holds the lock, exclusively or shared."""
    if not try_lock(descriptor):
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def is_same_file(descriptor: int, path: str) -> bool:
    """Return True if the path still leads to this open file."""
    try:
        there = os.stat(path)
        here = os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def record(descriptor: int, pid: int, path: str = "") -> None:
    """Write the holder of the lock, and the server's socket, into a lock file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{pid}\n{path}\n".encode(), 0)


def recorded(descriptor: int) -> tuple[int, str]:
    """Return the content that `record` wrote, valid while the lock is held."""
    lines = os.pread(descriptor, 4096, 0).decode().split("\n")
    return (int(lines[0]), lines[1]) if len(lines) == 3 else (0, "")


def answer(path: str) -> str:
    """Return the reply to PING of the server on this socket; "" without one."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(path)
            connection.sendall(b"PING\r\n")
            return connection.recv(64).decode("utf-8", "replace")
        except OSError:
            return ""


def make_private(folder: str) -> None:
    """Create the folder of the socket; refuse one that others could have created."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise CannotStartError(
                f"{folder} is not a folder of user {os.getuid()}"
            ) from None
        os.chmod(folder, 0o700)


def clear_away(path: str) -> None:
    """Remove a socket on which no server listens, and its folder."""
    with suppress(OSError):
        os.unlink(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


class Watcher:
    """Keeps one server running on one folder for as long as a process uses it."""

    def __init__(
        self,
        directory: str,
        path: str,
        grace: float,
        patience: float,
        command: list[str],
    ) -> None:
        self.directory = directory
        self.path = path
        self.grace = grace
        self.patience = patience
        self.command = command
        self.stop_requested = False
        self.crashes = 0
        self.started = 0.0
        self.lock = open_lock(directory, WATCHER)
        self.server = open_lock(directory, SERVER)
        self.presence = open_lock(directory, PRESENCE)
        # A signal ends the wait of the loop at once through this pipe.
        self.wakeup, signals = os.pipe()
        os.set_blocking(signals, False)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, *_: object) -> None:
        """Request the end of the server."""
        self.stop_requested = True

    def start(self) -> None:
        """Become the folder's watcher and make sure that a server answers."""
        # Another process may hold the lock for an instant, to test it.
        if not self.retry(lambda: try_lock(self.lock)):
            raise CannotStartError("another watcher does not release the folder")
        record(self.lock, os.getpid())
        self.serve()

    def watch(self) -> None:
        """Watch the server; return when it has been stopped."""
        unused_since = None
        while True:
            select.select([self.wakeup], [], [], POLL_INTERVAL)
            if self.stop_requested or self.is_folder_gone():
                self.end()
                return
            self.repair()
            if is_shared(self.presence):
                unused_since = None
                continue
            unused_since = unused_since or time.monotonic()
            if time.monotonic() - unused_since >= self.grace and self.end_if_unused():
                return

    def serve(self) -> None:
        """Return when a server answers: one that runs already, or a new one."""
        lock = open_lock(self.directory, SERVER)
        try:
            deadline = time.monotonic() + self.patience
            while not try_lock(lock):
                _, path = recorded(self.server)
                if path and answer(path):
                    self.path = path
                    break
                if time.monotonic() > deadline:
                    self.log("the running server does not answer: it is stopped")
                    self.end_server()
                time.sleep(0.01)
            else:
                self.launch(lock)
        finally:
            os.close(lock)
        self.wait_until_ready()

    def launch(self, lock: int) -> None:
        """Start a server that inherits its lock."""
        make_private(os.path.dirname(self.path))
        with suppress(FileNotFoundError):
            os.unlink(self.path)  # a killed server has left it
        self.started = time.monotonic()
        os.ftruncate(lock, 0)
        if os.fork():
            return
        try:
            record(lock, os.getpid(), self.path)
            os.set_inheritable(lock, True)
            os.dup2(2, 1)
            socket_options = ["--dir", self.directory, "--unixsocket", self.path]
            os.execv(self.command[0], [*self.command, *socket_options])
        except OSError as error:
            self.log(f"cannot run {self.command[0]}: {error}")
        finally:
            os._exit(127)

    def wait_until_ready(self) -> None:
        """Wait for PONG, however long the server takes to load its data."""
        deadline = time.monotonic() + STARTING
        while True:
            reply = answer(self.path)
            if reply.startswith("+PONG"):
                return
            if reply:  # it is loading
                deadline = time.monotonic() + STARTING
            if not is_held(self.server):
                raise CannotStartError("the server exited immediately")
            if time.monotonic() > deadline:
                self.end_server()
                raise CannotStartError("the server does not answer")
            time.sleep(0.01)

    def repair(self) -> None:
        """Restart the server if it has died or lost its socket."""
        self.reap()
        if is_held(self.server):
            if os.path.exists(self.path):
                return
            self.log("the socket was removed: the server is restarted")
            self.end_server()
        else:
            self.log("the server has died: it is restarted")
        young = time.monotonic() - self.started < 60
        self.crashes = self.crashes + 1 if young else 1
        if self.crashes >= MOST_CRASHES:
            raise CannotStartError("the server keeps dying")
        self.serve()

    def end_if_unused(self) -> bool:
        """Stop the server unless it is in use again; return whether it was stopped."""
        start = open_lock(self.directory, START)
        if try_lock(start) and try_lock(self.presence):
            # Both locks are kept to the end of this process: a new user waits for it,
            # and then starts another server.
            self.end()
            return True
        os.close(start)
        return False

    def end(self) -> None:
        """Stop the server in order and remove its socket."""
        self.end_server()
        clear_away(self.path)

    def end_server(self) -> None:
        """Stop the server's process: it writes its data first, unless it hangs."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid, _ = recorded(self.server)
            if pid and is_held(self.server):
                # It has ended, but a child that rewrites its file holds the lock.
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
                self.retry(lambda: not is_held(self.server))
        self.reap()

    def is_folder_gone(self) -> bool:
        """Return True if the folder was removed or replaced."""
        return not is_same_file(self.lock, os.path.join(self.directory, WATCHER))

    def reap(self) -> None:
        """Reap children that have ended."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def retry(self, attempt: Callable[[], bool]) -> bool:
        """Call `attempt` until it returns True or patience is over; return its result."""
        deadline = time.monotonic() + self.patience
        while not attempt():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def log(self, text: str) -> None:
        """Add a line to the log, which is the standard error."""
        os.write(2, f"{os.getpid()}:watcher {text}\n".encode())


def report_to_starter(text: str) -> None:
    """Answer the waiting starter, once; later messages go to the log."""
    # The starter may have been killed in the meantime.
    with suppress(BrokenPipeError):
        os.write(1, f"{text}\n".encode())
    os.dup2(2, 1)


def main() -> None:
    """Run as a program: DIRECTORY SOCKET GRACE PATIENCE KEEP|REMOVE COMMAND…"""
    directory, path, grace, patience, folder, *command = sys.argv[1:]
    if os.fork():
        os._exit(0)  # the starter does not wait for the watcher
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watcher = Watcher(directory, path, float(grace), float(patience), command)
    try:
        watcher.start()
        report_to_starter(f"{READY} {watcher.path}")
        watcher.watch()
    except (CannotStartError, OSError) as error:
        watcher.log(f"{error}: the watcher gives up")
        if not is_held(watcher.server):
            clear_away(watcher.path)
        report_to_starter(f"{error}")
        raise SystemExit(1) from None
    if folder == REMOVE:
        import shutil  # it would double the watcher's start

        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
