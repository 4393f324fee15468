"""A clean directory of its own for each job that asks for one, and its removal.

    <folder>/django_qless-<uid>/       0700, and refused if anybody else made it
        <worker>-<pid>.lock             locked as long as the worker lives
        <worker>-<pid>/                 the worker's own
            <pid of a child>/           emptied when the child has died
                <job>-<chance>/         the sandbox: removed when the job's run has ended

Nothing is made before the first job asks. The kernel lets go of the lock however the
worker dies, so the next worker that starts can tell what is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_qless.worker.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_qless.core import Reserved

# What begins so is being removed, by whom does not matter.
DOOMED = "doomed-"

# Seconds that the end of a worker waits for the last removal.
LAST_SWEEP = 1.0

# Whatever a job made of the permissions inside, its owner can remove it.
REMOVE = 'chmod -R u+rwx -- "$@" 2>/dev/null; exec rm -rf -- "$@"'


class Sandboxes:
    """The sandboxes of one worker's jobs, in whichever of its processes they run.

    The parent makes one and its children inherit it. Methods for the parent do not wait
    for what they have removed; those for jobs raise OSError if there is no place for a sandbox.
    """

    def __init__(
        self, worker: str, folder: str | os.PathLike[str] | None = None
    ) -> None:
        """`folder` is used instead of the system's folder for temporary files."""
        self.base = (
            Path(folder or tempfile.gettempdir()) / f"django_qless-{os.getuid()}"
        )
        name = re.sub(r"[^\w.-]", "_", worker, flags=re.ASCII)[:100].lstrip(".-")
        self._name = f"{name}-{os.getpid()}"
        self._lock: int | None = None
        self._home = os.getcwd()
        #: The process in whose name sandboxes are made, None for the present one. A
        #: process that lives for one job only sets its keeper.
        self.owner: int | None = None
        #: The sandboxes of running jobs by their tokens.
        self.in_use: dict[str, Path] = {}
        self._sweepers: list[subprocess.Popen[bytes]] = []

    # For jobs.

    def path_for(self, reserved: Reserved) -> Path:
        """Return the sandbox of a running job, and make it if this is the first time."""
        path = self.in_use.get(reserved.token)
        if path is None:
            if self._lock is None:
                self.claim()
            child = self.folder / str(self.owner or os.getpid())
            _private(child)
            # A jid may be anything, so it is no name for a folder.
            job = hashlib.sha256(
                f"{reserved.token} {reserved.jid}".encode()
            ).hexdigest()
            path = Path(tempfile.mkdtemp(prefix=f"{job[:16]}-", dir=child))
            self.in_use[reserved.token] = path
        return path

    def remove(self, reserved: Reserved) -> None:
        """Remove the sandbox of a job whose run has ended, if it has one."""
        path = self.in_use.pop(reserved.token, None)
        if path is None:
            return
        try:
            if _is_inside(Path.cwd(), path):
                os.chdir(self._home)
        except OSError:
            os.chdir("/")
        _remove_tree(path)

    # For the parent.

    def claim(self) -> None:
        """Take the worker's folder. The first sandbox does it as well, if need be.

        Only if the parent has done it, its children's sandboxes can be swept.
        """
        _private(self.base)
        self._lock = _locked(self._lock_file)
        while self._lock is None:
            # The same name and process id: somebody in another container.
            self._name = f"{self._name}-{secrets.token_hex(4)}"
            self._lock = _locked(self._lock_file)
        _private(self.folder)

    @property
    def folder(self) -> Path:
        """Where this worker's sandboxes are."""
        return self.base / self._name

    def sweep(self, child: int) -> None:
        """Have removed what a process that has ended, with this id, has left.

        Cheap if its jobs had no sandboxes.
        """
        self._doom([self.folder / str(child)])

    def sweep_dead(self) -> None:
        """Have removed what workers have left that are gone, without a goodbye."""
        doomed: list[Path] = []
        try:
            entries = sorted(os.listdir(self.base))
        except OSError:
            return
        for entry in entries:
            path = self.base / entry
            if entry.startswith(DOOMED):
                doomed.append(path)
            elif entry.endswith(".lock") and entry != self._lock_file.name:
                lock = _locked(path)
                if lock is not None:
                    doomed.append(path.with_suffix(""))
                    path.unlink(missing_ok=True)
                    os.close(lock)
        self._doom(doomed)

    def reap(self) -> None:
        """Take note of processes that have removed what they had to."""
        if self._sweepers:
            self._sweepers = [each for each in self._sweepers if each.poll() is None]

    @property
    def is_sweeping(self) -> bool:
        """Whether a process removes something, or has not been reaped."""
        return bool(self._sweepers)

    def close(self) -> None:
        """Have removed all that is left, and give up the worker's folder.

        Waits a little for that to be done: nobody will reap who does it.
        """
        if self._lock is not None:
            self._doom([self.folder])
            self._lock_file.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
        deadline = time.monotonic() + LAST_SWEEP
        for sweeper in self._sweepers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                sweeper.wait(max(0.0, deadline - time.monotonic()))
        self._sweepers.clear()

    @property
    def _lock_file(self) -> Path:
        return self.base / f"{self._name}.lock"

    def _doom(self, paths: list[Path]) -> None:
        """Move these away at once, and have another process remove them."""
        self.reap()
        doomed = []
        for path in paths:
            if not path.name.startswith(DOOMED):
                away = self.base / f"{DOOMED}{secrets.token_hex(8)}"
                try:
                    path.rename(away)
                except OSError:
                    continue  # mostly: no job there has asked for a sandbox
                path = away
            doomed.append(str(path))
        if doomed:
            try:
                sweeper = subprocess.Popen(
                    ["/bin/sh", "-c", REMOVE, "sweep", *doomed],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                logger.exception("sandboxes are not removed: %s", ", ".join(doomed))
            else:
                self._sweepers.append(sweeper)


def _private(folder: Path) -> None:
    """Make a folder that only this user can look into, or make sure that it is so."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(
            f"{folder} cannot hold sandboxes: it is not a directory of this user. "
            "Remove it, or let TMPDIR name a place where nobody else can write"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)


def _locked(path: Path) -> int | None:
    """Return the locked file, which is made if need be; None if others hold the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        # Whoever held it before may have removed it: then this is the lock of nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.lstat()):
                return file
        os.close(file)


def _is_inside(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it; what cannot be removed is logged."""

    def make_room(function: Callable[..., Any], name: str, error: Any) -> None:
        # A job may have taken permissions away, from itself.
        with contextlib.suppress(OSError):
            for each in (os.path.dirname(name), name):
                if not os.path.islink(each) and _is_inside(Path(each), path):
                    os.chmod(each, 0o700)
            if os.path.isdir(name) and not os.path.islink(name):
                shutil.rmtree(name, ignore_errors=True)
            else:
                os.unlink(name)

    word = "onexc" if sys.version_info >= (3, 12) else "onerror"
    options: Any = {word: make_room}
    for _ in range(2):
        shutil.rmtree(path, **options)
        if not path.exists():
            return
    logger.warning("the sandbox %s could not be removed entirely", path)
