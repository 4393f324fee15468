"""A file with the process id of the worker, for those who send it signals."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from django_qless.worker.alive import began_after, is_alive
from django_qless.worker.atomic_file import replace_file
from django_qless.worker.preflight import CannotWork


class Pidfile:
    """Belongs to this process from `write` to `remove`, also when it executes anew."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self) -> None:
        """Write the id of this process; raise CannotWork if another one's stands there.

        The id of a process that is gone is replaced.
        """
        holder = self.holder()
        if holder not in (None, os.getpid()):
            raise CannotWork(
                f"The pidfile {self.path} belongs to process {holder}, which runs. "
                f"Stop that worker (kill -TERM {holder}), or give another --pidfile.",
                os.EX_CANTCREAT,
            )
        try:
            replace_file(self.path, f"{os.getpid()}\n")
        except OSError as error:
            raise CannotWork(
                f"The pidfile {self.path} cannot be written: {error.strerror}. "
                "Name a file in a folder that exists and that is yours.",
                os.EX_CANTCREAT,
            ) from error

    def remove(self) -> None:
        """Remove the file if it is ours. Raises nothing."""
        if self.written() == os.getpid():
            with contextlib.suppress(OSError):
                self.path.unlink()

    def holder(self) -> int | None:
        """Return the process to which the file belongs, if it is still there."""
        pid = self.written()
        if pid is None or not is_alive(pid):
            return None
        try:
            written = self.path.stat().st_mtime
        except OSError:
            return None
        # A process that is younger than the file has got the id of the one that wrote.
        return None if began_after(pid, written) else pid

    def written(self) -> int | None:
        """Return the id that stands in the file; None if there is none."""
        try:
            return int(self.path.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
