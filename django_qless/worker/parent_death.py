"""A pipe that kills a child and its jobs' processes when the parent dies.

The parent holds the writing end and never writes. When it ends, in any way, the kernel
closes that end, and the child's process group is killed. On Linux the kernel does this
too (by a signal when the pipe's state changes), so a job that holds the GIL cannot
prevent it; elsewhere a thread waits for the end of the pipe.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading

F_SETSIG = 10  # Linux's; the fcntl module has no name for it before Python 3.13


def die_with_writer(end: int) -> None:
    """Die, with this process's group, when the other end of a pipe is closed."""
    if not (sys.platform == "linux" and _ask_kernel(end)):
        threading.Thread(target=_watch, args=(end,), daemon=True).start()
    # It may have been closed before.
    if select.select([end], [], [], 0)[0]:
        _die()


def _ask_kernel(end: int) -> bool:
    try:
        fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(end, F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(end, fcntl.F_GETFL)
        fcntl.fcntl(end, fcntl.F_SETFL, flags | os.O_ASYNC)
    except OSError:
        return False
    return True


def _watch(end: int) -> None:
    os.read(end, 1)
    _die()


def _die() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
