"""Sandboxes: a clean directory for each job that asks for one, and its removal.

    <folder>/django_qless-<uid>/       0700, and refused if another user made it
        <worker>-<pid>.lock             locked as long as the worker lives
        <worker>-<pid>/                 of one worker
            <pid of a child>/           emptied when the child has died
                <job>-<random>/         the sandbox: removed when the job's run has ended

Nothing is made before the first job asks. The kernel releases the lock however the worker
dies, so the next worker that starts finds what is left over.
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
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.worker.log import logger

if TYPE_CHECKING:
    from django_qless.core import Reserved

# The prefix of folders that are being removed, by whichever process.
DOOMED = "doomed-"

# Seconds that the end of a worker waits for the last removal.
LAST_SWEEP = 1.0

# A job may have changed the permissions inside; neither command follows symbolic links.
REMOVE = (
    *("/bin/sh", "-c"),
    'chmod -R u+rwx -- "$@" 2>/dev/null; exec rm -rf -- "$@" 2>/dev/null',
    "remove",
)


class Sandboxes:
    """The sandboxes of one worker's jobs, in all its processes.

    The parent makes one and its children inherit it. Methods for the parent do not wait
    for removals; those for jobs raise OSError if there is no place for a sandbox.
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
        #: The process whose folder holds the sandboxes, None for the present one. A
        #: process that lives for one job only sets its parent.
        self.owner: int | None = None
        #: The sandboxes of running jobs by their tokens.
        self.in_use: dict[str, Path] = {}
        self._removals: list[subprocess.Popen[bytes]] = []

    # For jobs.

    def path_for(self, reserved: Reserved) -> Path:
        """Return the sandbox of a running job; make it at the first call."""
        path = self.in_use.get(reserved.token)
        if path is None:
            if self._lock is None:
                self.claim()
            child = self.folder / str(self.owner or os.getpid())
            _make_private(child)
            # A jid may contain anything, so it is no name for a folder.
            job = hashlib.sha256(f"{reserved.token} {reserved.jid}".encode())
            path = Path(tempfile.mkdtemp(prefix=f"{job.hexdigest()[:16]}-", dir=child))
            self.in_use[reserved.token] = path
        return path

    def remove(self, reserved: Reserved) -> None:
        """Remove the sandbox of a job whose run has ended, if it has one."""
        path = self.in_use.pop(reserved.token, None)
        if path is None:
            return
        try:
            is_inside = Path.cwd().is_relative_to(path.resolve())
        except OSError:
            is_inside = True  # the job has removed the folder in which it was
        if is_inside:
            try:
                os.chdir(self._home)
            except OSError:
                os.chdir("/")
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            with contextlib.suppress(OSError):
                subprocess.run([*REMOVE, str(path)], check=False)
        if os.path.lexists(path):
            logger.warning("the sandbox %s could not be removed entirely", path)

    # For the parent.

    def claim(self) -> None:
        """Lock the worker's folder. The first sandbox does it as well, if need be.

        Its children's sandboxes can be swept only if the parent has done it.
        """
        _make_private(self.base)
        self._lock = _lock(self._lock_file)
        while self._lock is None:
            # The same name and process id, in another container.
            self._name = f"{self._name}-{secrets.token_hex(4)}"
            self._lock = _lock(self._lock_file)
        _make_private(self.folder)

    @property
    def folder(self) -> Path:
        """The folder of this worker's sandboxes."""
        return self.base / self._name

    def sweep(self, child: int) -> None:
        """Remove the sandboxes of a child that has ended, with this process id.

        Cheap if its jobs had none.
        """
        self._remove_later([self.folder / str(child)])

    def sweep_dead(self) -> None:
        """Remove the sandboxes of workers that were killed."""
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
                lock = _lock(path)
                if lock is not None:
                    doomed.append(path.with_suffix(""))
                    path.unlink(missing_ok=True)
                    os.close(lock)
        self._remove_later(doomed)

    def reap(self) -> None:
        """Reap processes that have finished their removals."""
        if self._removals:
            self._removals = [each for each in self._removals if each.poll() is None]

    def close(self) -> None:
        """Remove all that is left, and give up the worker's folder.

        Waits a little for that, as the process is not reaped afterwards.
        """
        if self._lock is not None:
            self._remove_later([self.folder])
            self._lock_file.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
        deadline = time.monotonic() + LAST_SWEEP
        for removal in self._removals:
            with contextlib.suppress(subprocess.TimeoutExpired):
                removal.wait(max(0.0, deadline - time.monotonic()))
        self._removals.clear()

    @property
    def _lock_file(self) -> Path:
        return self.base / f"{self._name}.lock"

    def _remove_later(self, paths: list[Path]) -> None:
        """Move these away at once, and start a process that removes them."""
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
                removal = subprocess.Popen(
                    [*REMOVE, *doomed],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                logger.exception("sandboxes are not removed: %s", ", ".join(doomed))
            else:
                self._removals.append(removal)


def _make_private(folder: Path) -> None:
    """Make a folder private to this user, or check that it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(
            f"{folder} cannot hold sandboxes: it is not a directory of this user. "
            "Remove it, or let TMPDIR name a place where no other user can write"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)


def _lock(path: Path) -> int | None:
    """Return a locked file, made if necessary; None if another worker holds the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        # Its last holder may have removed it: then this locks nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.lstat()):
                return file
        os.close(file)
