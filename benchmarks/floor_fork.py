"""Floor of the fork pool: `python -m benchmarks.floor_fork COUNT` forks, and waits.

The process has loaded what the worker's command loads. Each child runs the no-op job and
ends: no queue, no lock, no outcome.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

import django
from django.core.management import load_command_class


def main(count: int) -> None:
    django.setup()
    load_command_class("django_qless", "qless_worker")
    from .project.jobs import noop

    gc.collect()
    gc.freeze()
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            noop(number)
            os._exit(0)
        os.waitpid(pid, 0)
    signal.pause()  # until it is ended from outside, like a worker


if __name__ == "__main__":
    main(int(sys.argv[1]))
