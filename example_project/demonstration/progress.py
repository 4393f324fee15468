"""A progress bar for terminals; for anything else a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO


class Progress:
    """Shows how many of `total` are done. Writes to stderr, the report goes to stdout."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = sys.stderr if stream is None else stream
        self.done = 0
        self.began = time.monotonic()
        self._tenths_told = 0

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self.began

    def show(self, done: int) -> None:
        """Redraws the bar; outside of a terminal, prints a line for each tenth."""
        # A scan may add to the jobs on the way: never show less than before.
        self.done = max(self.done, min(done, self.total))
        if self.stream.isatty():
            self.stream.write(f"\r{self._bar()}")
            self.stream.flush()
        elif self._tenths > self._tenths_told:
            self._tenths_told = self._tenths
            self.stream.write(f"{self._words()}\n")
            self.stream.flush()

    def tell(self, line: str) -> None:
        """Writes a line for people above the bar."""
        if self.stream.isatty():
            line = f"\r\x1b[K{line}"
        self.stream.write(f"{line}\n")
        self.stream.flush()

    def close(self) -> None:
        """Leaves the bar as it is and goes on below it."""
        if self.stream.isatty():
            self.stream.write("\n")
            self.stream.flush()

    @property
    def _tenths(self) -> int:
        return 10 * self.done // self.total if self.total else 10

    def _words(self) -> str:
        rate = self.done / self.seconds if self.seconds else 0.0
        return f"{self.done:,} of {self.total:,} jobs, {rate:,.0f} jobs/s"

    def _bar(self) -> str:
        words = f"  {self._words()}  "
        room = min(40, shutil.get_terminal_size().columns - len(words) - 3)
        if room < 10:
            return words
        full = room * self.done // self.total if self.total else room
        return f"[{'#' * full}{'.' * (room - full)}]{words}"
