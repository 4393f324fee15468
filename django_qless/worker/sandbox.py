"""Sandboxes: an empty directory for each job that asks for one, and its removal.

    <temporary folder>/django_qless-jobs-<random>/   of one worker; locked while it lives
        <pid of a child>-<random>/                   the sandbox of a run

The kernel releases the lock (flock) however the worker dies, so the next worker that starts
finds what is left over. Folders that a job has made unwritable may stay until then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from django_qless.worker.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_qless.core import Reserved

PREFIX = "django_qless-jobs-"

LAST_REMOVAL_SECONDS = 1.0
"""How long the end of a worker waits for the last removal."""


class Sandboxes:
    """The sandboxes of one worker's jobs, in all its processes.

    The parent makes one and its children inherit it.
    """

    def __init__(self, base: str | os.PathLike[str] | None = None) -> None:
        """`base` is used instead of the system's folder for temporary files."""
        self.base = Path(base or tempfile.gettempdir())
        #: This worker's folder, once it is claimed.
        self.folder: Path | None = None
        #: The sandboxes of running jobs by their tokens.
        self.in_use: dict[str, Path] = {}
        self._lock = -1
        self._home = os.getcwd()
        self._removals: list[subprocess.Popen[bytes]] = []

    def path_for(self, reserved: Reserved) -> Path:
        """Return the sandbox of a running job, made at the first call. Raises OSError."""
        path = self.in_use.get(reserved.token)
        if path is None:
            folder = self.folder or self.claim()
            path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder))
            self.in_use[reserved.token] = path
        return path

    def remove(self, reserved: Reserved) -> None:
        """Remove the sandbox of a job whose run has ended, if it has one."""
        path = self.in_use.pop(reserved.token, None)
        if path is None:
            return
        self._leave(path)
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            logger.warning("the sandbox %s could not be removed entirely", path)

    def _leave(self, path: Path) -> None:
        """Change the working directory back if the job has gone into its sandbox."""
        try:
            is_inside = Path.cwd().is_relative_to(path.resolve())
        except OSError:
            is_inside = True  # the job has removed the folder in which it was
        if is_inside:
            try:
                os.chdir(self._home)
            except OSError:
                os.chdir("/")

    def claim(self) -> Path:
        """Make and lock the worker's folder; return it. Raises OSError.

        The first sandbox does it as well, but the parent can sweep only its own folder.
        """
        self.base.mkdir(parents=True, exist_ok=True)
        while self.folder is None:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.base))
            # None: a starting worker took it for that of a dead one.
            lock = _lock(folder)
            if lock is not None:
                self._lock, self.folder = lock, folder
        return self.folder

    def sweep(self, child: int) -> None:
        """Start to remove the sandboxes of a child that has ended, with this process id."""
        if self.folder is not None:
            self._start_removal(self.folder.glob(f"{child}-*"))

    def sweep_dead(self) -> None:
        """Start to remove the sandboxes of workers that were killed."""
        for folder in self.base.glob(f"{PREFIX}*"):
            lock = None if folder == self.folder else _lock(folder)
            if lock is not None:
                self._start_removal([folder], lock)
                os.close(lock)

    def reap(self) -> None:
        """Reap processes that have finished their removals."""
        self._removals = [each for each in self._removals if each.poll() is None]

    def close(self) -> None:
        """Remove all that is left; wait a little for that."""
        if self.folder is not None:
            self._start_removal([self.folder], self._lock)
            os.close(self._lock)
            self.folder = None
        for removal in self._removals:
            with contextlib.suppress(subprocess.TimeoutExpired):
                removal.wait(LAST_REMOVAL_SECONDS)

    def _start_removal(self, paths: Iterable[Path], *locks: int) -> None:
        """Start a process that removes these, and holds their locks meanwhile."""
        self.reap()
        if names := [str(path) for path in paths]:
            try:
                removal = subprocess.Popen(
                    ["/bin/rm", "-rf", "--", *names],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=locks,
                )
            except OSError:
                logger.exception("sandboxes are not removed: %s", ", ".join(names))
            else:
                self._removals.append(removal)


def _lock(folder: Path) -> int | None:
    """Return a descriptor that locks a folder of this user; None if another holds it."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(number).st_uid == os.getuid():
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return number
        except BlockingIOError:
            pass
        os.close(number)
    return None
