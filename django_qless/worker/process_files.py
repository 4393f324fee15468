"""The health file, which shows other programs that a worker is alive."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import time
from pathlib import Path

from django_qless.health import Unwell, read
from django_qless.worker.log import log_event
from django_qless.worker.server_checks import CannotStart

#: A name that exists already, such as a symbolic link, is an error and never followed.
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically, safe where others may write. Raises OSError."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, NEW_FILE, 0o666)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def cannot_write(kind: str, path: Path, error: OSError) -> CannotStart:
    """Return the exception for a file that cannot be written."""
    return CannotStart(
        f"The {kind} {path} cannot be written: {error.strerror}. "
        "Name a file in a folder that exists and that is yours.",
        os.EX_CANTCREAT,
    )


class HealthFile:
    """Holds when the loop last turned and when the server last answered.

    Both by the monotonic clock, which is never set; `time` is for people.
    `django_qless.health` reads the file.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = Path(path)
        self.name = name
        self._is_broken = False

    def create(self) -> None:
        """Write the file for the first time; raise CannotStart if that is impossible."""
        try:
            self._write(time.monotonic(), 0.0, "starting", 0)
        except OSError as error:
            raise cannot_write("health file", self.path, error) from error

    def write(self, turned: float, good: float, state: str, running: int) -> None:
        """Replace the file. Raises nothing; the first of several errors is logged."""
        try:
            self._write(turned, good, state, running)
        except OSError as error:
            if not self._is_broken:
                log_event(logging.ERROR, "health file not written", why=error)
            self._is_broken = True
        else:
            self._is_broken = False

    def remove(self) -> None:
        """Remove the file if it is ours. Raises nothing."""
        with contextlib.suppress(OSError, Unwell):
            if read(str(self.path))["pid"] == os.getpid():
                self.path.unlink()

    def _write(self, turned: float, good: float, state: str, running: int) -> None:
        content = {
            "name": self.name,
            "pid": os.getpid(),
            "state": state,
            "running": running,
            "turned": turned,
            "good": good or None,
            "time": time.time(),
        }
        replace_file(self.path, json.dumps(content) + "\n")
