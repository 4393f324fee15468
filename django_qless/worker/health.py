"""The file in which a worker shows that it lives; `django_qless.health` reads it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from pathlib import Path

from django_qless.health import Unwell, read
from django_qless.worker.atomic_file import replace_file
from django_qless.worker.log import event
from django_qless.worker.preflight import CannotWork


class HealthFile:
    """Says when the loop last turned and when the server last answered.

    Both by the monotonic clock, so that a clock that is set changes nothing; `time` is
    for people.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = Path(path)
        self.name = name
        self._is_broken = False

    def create(self) -> None:
        """Write the file for the first time; raise CannotWork if that is impossible."""
        try:
            self._write(time.monotonic(), 0.0, "starting", 0)
        except OSError as error:
            raise CannotWork(
                f"The health file {self.path} cannot be written: {error.strerror}. "
                "Name a file in a folder that exists and that is yours.",
                os.EX_CANTCREAT,
            ) from error

    def write(self, turned: float, good: float, state: str, running: int) -> None:
        """Replace the file. Raises nothing; what goes wrong is logged once."""
        try:
            self._write(turned, good, state, running)
        except OSError as error:
            if not self._is_broken:
                event(logging.ERROR, "health file not written", why=error)
            self._is_broken = True
        else:
            self._is_broken = False

    def remove(self) -> None:
        """Remove the file if it is ours: its worker has ended. Raises nothing."""
        with contextlib.suppress(OSError, Unwell):
            if read(str(self.path))["pid"] == os.getpid():
                self.path.unlink()

    def _write(self, turned: float, good: float, state: str, running: int) -> None:
        told = {
            "name": self.name,
            "pid": os.getpid(),
            "state": state,
            "running": running,
            "turned": turned,
            "good": good or None,
            "time": time.time(),
        }
        replace_file(self.path, json.dumps(told) + "\n")
