"""When does a child make room for a new one? After so many jobs, or grown too big, or old.

The limits of one child are a little below those of the options, by chance, so that
children that were started together do not end together.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_qless.worker.options import WorkerOptions

# The limits of a child lie between this part of the options' and the whole.
LEAST_PART = 0.8

# Seconds between two looks at the memory.
LOOK = 0.5

# What getrusage counts in: bytes on macOS, kilobytes elsewhere.
RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024


class Recycling:
    """The limits of one child; it asks between two batches."""

    def __init__(self, options: WorkerOptions) -> None:
        part = random.uniform(LEAST_PART, 1.0)
        jobs, memory, age = options.max_jobs, options.max_memory, options.max_age
        #: How many jobs it may run, at most how many bytes it may take, until when.
        self.jobs = sys.maxsize if jobs is None else max(1, round(jobs * part))
        self.memory = None if memory is None else int(memory * part)
        self.end = float("inf") if age is None else time.monotonic() + age * part
        self._looked = 0.0

    def room(self, count: int, ran: int) -> int:
        """Return how many of `count` jobs it may still take, having run so many."""
        left = self.jobs - ran
        return count if count <= left else max(left, 0)

    def due(self, ran: int, now: float) -> str:
        """Return the reason why it has to end, having run so many jobs; "" if none.

        `now` is on the monotonic clock. Costs next to nothing without limits.
        """
        if ran >= self.jobs:
            return f"it has run {ran} jobs"
        if now >= self.end:
            return "it is old"
        # One that is too big from its start is not to be replaced for nothing.
        if self.memory is not None and ran and now - self._looked >= LOOK:
            self._looked = now
            if (size := memory_used()) > self.memory:
                return f"it takes {size} bytes"
        return ""


def memory_used() -> int:
    """Return how many bytes of memory this process takes (its resident set)."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        # Elsewhere only the highest value so far is known.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RUSAGE_UNIT
