"""A worker of the smallest project, whose clock or calendar may be wrong.

    python -m tests.worker.contract.process '{"url": …}'

QLESS_TEST_CLOCK_OFF in the environment is by how many seconds its clock is wrong. With
QLESS_TEST_CRON_BY_SECONDS any cron expression ticks each second.
"""

from __future__ import annotations

import os
import sys
import time

if __name__ == "__main__":
    off = float(os.environ.get("QLESS_TEST_CLOCK_OFF", "0"))
    if off:
        # Before anything can have taken hold of the right one.
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + off
        time.time_ns = lambda: right_ns() + int(off * 1e9)

    if os.environ.get("QLESS_TEST_CRON_BY_SECONDS"):
        from django_qless.worker import ticker
        from tests.worker.contract.seconds import EverySecond

        ticker.Cron = lambda *_: EverySecond()

from tests.worker.program import main

if __name__ == "__main__":
    sys.exit(main())
