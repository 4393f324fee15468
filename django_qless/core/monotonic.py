"""The monotonic clock, read from the kernel: tests that freeze time do not stop it.

freezegun puts another function in the place of `time.monotonic`, and some versions of
time-machine change that function itself. A deadline by either would never be reached.
"""

from __future__ import annotations

import time
from functools import partial

# That of `time.monotonic`, which on macOS is another one.
_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)

#: Return the time in seconds, comparable with that of `time.monotonic`.
monotonic = partial(time.clock_gettime, _CLOCK)
