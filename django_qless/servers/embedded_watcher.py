"""Starts the embedded server of one folder, watches it, ends it after its last user.

Run by path, as a program of its own (`django_qless.servers.embedded` does), so that it imports
next to nothing and lives on in a few megabytes, in its own session, when the process
that needed the server first is gone.

Five files in the folder say everything, four of them by who holds their lock. The
kernel gives a lock back however its holder ends, so nothing can be stale after a crash:

    start.lock      one process at a time decides whether a server must be started
    presence.lock   shared by every process that uses the server
    watcher.lock    held by the watcher; the file names its process
    server.lock     held by the server itself; the file names its process and socket
    server.log      what server and watcher had to say
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

# How long a new server may be silent, seconds: it reads its data in large pieces.
STARTING = 60.0
# How often the watcher looks whether anybody is still there, seconds.
PACE = 0.25
# So many deaths in a row, each within a minute of the start, are not chance.
DEATHS = 5


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
    """Return whether a process holds the lock for itself alone."""
    if not try_lock(descriptor, SHARED):
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def is_shared(descriptor: int) -> bool:
    """Return whether any process holds the lock, alone or with others."""
    if not try_lock(descriptor):
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def is_same_file(descriptor: int, path: str) -> bool:
    """Return whether the path still leads to the file that is open here."""
    try:
        there = os.stat(path)
        here = os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def record(descriptor: int, pid: int, path: str = "") -> None:
    """Write into a lock file who holds the lock, and the server's socket."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{pid}\n{path}\n".encode(), 0)


def recorded(descriptor: int) -> tuple[int, str]:
    """Return what `record` wrote last: true only while the lock is held."""
    lines = os.pread(descriptor, 4096, 0).decode().split("\n")
    return (int(lines[0]), lines[1]) if len(lines) == 3 else (0, "")


def answer(path: str) -> str:
    """Return what the server on this socket says to PING, "" if there is no answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(path)
            connection.sendall(b"PING\r\n")
            return connection.recv(64).decode("utf-8", "replace")
        except OSError:
            return ""


def make_private(folder: str) -> None:
    """Make the folder of the socket; refuse one that others could have prepared."""
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
    """Remove a socket that no server listens on any more, and its folder."""
    with suppress(OSError):
        os.unlink(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


class Watcher:
    """Keeps one server on one folder for as long as somebody uses it."""

    def __init__(
        self, directory: str, path: str, binary: str, grace: float, patience: float
    ) -> None:
        self.directory = directory
        self.path = path
        self.binary = binary
        self.grace = grace
        self.patience = patience
        self.told_to_stop = False
        self.deaths = 0
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
        """Note that the server is to be stopped."""
        self.told_to_stop = True

    def begin(self) -> None:
        """Become the folder's watcher and see to it that a server answers."""
        # Another process may be looking, for an instant, whether the lock is held.
        if not self.retry(lambda: try_lock(self.lock)):
            raise CannotStartError("another watcher does not give the folder up")
        record(self.lock, os.getpid())
        self.serve()

    def watch(self) -> None:
        """Return when the server has been ended, for whatever reason."""
        unused_since = None
        while True:
            select.select([self.wakeup], [], [], PACE)
            if self.told_to_stop or self.is_folder_gone():
                self.end()
                return
            self.mend()
            if is_shared(self.presence):
                unused_since = None
                continue
            unused_since = unused_since or time.monotonic()
            if time.monotonic() - unused_since >= self.grace and self.end_if_unused():
                return

    def serve(self) -> None:
        """Return when a server answers: the one that is there already, or a new one."""
        lock = open_lock(self.directory, SERVER)
        try:
            deadline = time.monotonic() + self.patience
            while not try_lock(lock):
                _, path = recorded(self.server)
                if path and answer(path):
                    self.path = path
                    break
                if time.monotonic() > deadline:
                    self.say("the server that is there does not answer: ended")
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
            os.execv(self.binary, self.command())
        except OSError as error:
            self.say(f"cannot run {self.binary}: {error}")
        finally:
            os._exit(127)

    def command(self) -> list[str]:
        """Return the server's command line."""
        return [
            self.binary,
            *("--dir", self.directory, "--unixsocket", self.path, "--port", "0"),
            *("--unixsocketperm", "700", "--daemonize", "no", "--logfile", ""),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--always-show-logo", "no"),
        ]

    def wait_until_ready(self) -> None:
        """Wait for PONG, however long the server is busy with loading its data."""
        deadline = time.monotonic() + STARTING
        while True:
            reply = answer(self.path)
            if reply.startswith("+PONG"):
                return
            if reply:  # it is loading
                deadline = time.monotonic() + STARTING
            if not is_held(self.server):
                raise CannotStartError("the server ended at once")
            if time.monotonic() > deadline:
                self.end_server()
                raise CannotStartError("the server does not answer")
            time.sleep(0.01)

    def mend(self) -> None:
        """Bring the server back if it has died or has lost its socket."""
        self.reap()
        if is_held(self.server):
            if os.path.exists(self.path):
                return
            self.say("the socket has been removed: the server starts again")
            self.end_server()
        else:
            self.say("the server has died: it starts again")
        young = time.monotonic() - self.started < 60
        self.deaths = self.deaths + 1 if young else 1
        if self.deaths >= DEATHS:
            raise CannotStartError("the server keeps dying")
        self.serve()

    def end_if_unused(self) -> bool:
        """End the server unless somebody came in the meantime."""
        start = open_lock(self.directory, START)
        if try_lock(start) and try_lock(self.presence):
            # Both locks are kept to the end of this process: who comes now waits for
            # it, and then starts a server anew.
            self.end()
            return True
        os.close(start)
        return False

    def end(self) -> None:
        """End the server in order and leave nothing of the socket."""
        self.end_server()
        clear_away(self.path)

    def end_server(self) -> None:
        """End the server's process: it writes its data first, unless it is hung."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid, _ = recorded(self.server)
            if pid and is_held(self.server):
                # Gone, but a child that rewrites its file holds the lock a while.
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
                self.retry(lambda: not is_held(self.server))
        self.reap()

    def is_folder_gone(self) -> bool:
        """Return whether the folder was removed, or replaced, under the server."""
        return not is_same_file(self.lock, os.path.join(self.directory, WATCHER))

    def reap(self) -> None:
        """Let children that have ended go."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def retry(self, attempt: Callable[[], bool]) -> bool:
        """Call `attempt` until it is true or patience is over; return its answer."""
        deadline = time.monotonic() + self.patience
        while not attempt():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def say(self, text: str) -> None:
        """Add a line to the log, which is the standard error."""
        os.write(2, f"{os.getpid()}:watcher {text}\n".encode())


def tell_starter(text: str) -> None:
    """Give the waiting starter its answer, once; later ones go to the log."""
    # It may have been killed in the meantime: others will come.
    with suppress(BrokenPipeError):
        os.write(1, f"{text}\n".encode())
    os.dup2(2, 1)


def main() -> None:
    """Run as a program: DIRECTORY SOCKET BINARY GRACE PATIENCE."""
    directory, path, binary, grace, patience = sys.argv[1:]
    if os.fork():
        os._exit(0)  # nobody has to wait for the watcher
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watcher = Watcher(directory, path, binary, float(grace), float(patience))
    try:
        watcher.begin()
        tell_starter(f"{READY} {watcher.path}")
        watcher.watch()
    except (CannotStartError, OSError) as error:
        watcher.say(f"{error}: the watcher gives up")
        if not is_held(watcher.server):
            clear_away(watcher.path)
        tell_starter(f"{error}")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
