"""What jobs did, recorded outside Redis: a named pipe that tests read as events.

A job writes a line, a test waits for it. Lines of one write stay whole, whichever process
they come from, and nothing is lost when a writer is killed.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

PATIENCE = 90.0


def note(path: str, *words: object) -> None:
    """Write a line into the ledger; called by jobs."""
    end = os.open(path, os.O_WRONLY)
    try:
        os.write(end, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(end)


class Ledger:
    """The reader's side of the pipe: all lines so far, in their order."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(self.path)
        # Open for both, so that it neither blocks nor ends with its last writer.
        self._end = os.open(self.path, os.O_RDWR)
        self._rest = b""
        self.lines: list[str] = []

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._end)

    def wait_for(self, *wanted: str, times: int = 1) -> None:
        """Return when each of these lines has come `times` times; fail if it does not."""
        deadline = time.monotonic() + PATIENCE
        while any(self.lines.count(line) < times for line in wanted):
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"waited for {wanted}, came: {self.lines}")

    def wait_until(self, count: int) -> list[str]:
        """Return the lines when there are `count` of them."""
        deadline = time.monotonic() + PATIENCE
        while len(self.lines) < count:
            if not self._read(deadline - time.monotonic()):
                came = f"{len(self.lines)}: {self.lines[:100]}"
                raise AssertionError(f"waited for {count} lines, came {came}")
        return self.lines

    def all(self) -> list[str]:
        """Return what has come so far."""
        while self._read(0):
            pass
        return self.lines

    def starting_with(self, word: str) -> list[str]:
        """Return the second words of the lines so far that begin with this word."""
        return [line.split(" ")[1] for line in self.all() if line.split(" ")[0] == word]

    def _read(self, seconds: float) -> bool:
        if not select.select([self._end], [], [], max(0.0, seconds))[0]:
            return False
        *lines, self._rest = (self._rest + os.read(self._end, 65536)).split(b"\n")
        self.lines += [line.decode() for line in lines]
        return True


class Gate:
    """A named pipe at which jobs wait until the test lets them go on."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._end: int | None = None
        os.mkfifo(self.path)

    def open(self) -> None:
        """Let jobs through, those that come later as well; blocks until the first waits."""
        deadline = time.monotonic() + PATIENCE
        while self._end is None:
            try:
                # As long as this end is open, jobs go through at once.
                self._end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                # No job waits yet.
                if time.monotonic() > deadline:
                    raise AssertionError("no job came to the gate") from None
                time.sleep(0.005)

    def close(self) -> None:
        """Have jobs wait again."""
        if self._end is not None:
            os.close(self._end)
            self._end = None


def wait_at(path: str) -> None:
    """Wait until the gate opens; called by jobs."""
    os.close(os.open(path, os.O_RDONLY))
