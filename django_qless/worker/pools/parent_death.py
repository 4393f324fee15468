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


class ParentDeathPipe:
    """The pipe between a parent and one child."""

    def __init__(self) -> None:
        self._child_end, self._parent_end = os.pipe()

    def die_with_parent(self) -> None:
        """In a child that leads a process group: die with the parent from now on."""
        self.close_parent_end()
        if not (sys.platform == "linux" and self._ask_kernel()):
            threading.Thread(target=self._watch, daemon=True).start()
        # The parent may have died before.
        if select.select([self._child_end], [], [], 0)[0]:
            self._die()

    def close_parent_end(self) -> None:
        """Close it: in the parent when the child is gone, and in its siblings."""
        os.close(self._parent_end)

    def close_child_end(self) -> None:
        """Close it in the parent, once the child has a copy."""
        os.close(self._child_end)

    def _ask_kernel(self) -> bool:
        end = self._child_end
        try:
            fcntl.fcntl(end, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(end, F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(end, fcntl.F_GETFL)
            fcntl.fcntl(end, fcntl.F_SETFL, flags | os.O_ASYNC)
        except OSError:
            return False
        return True

    def _watch(self) -> None:
        os.read(self._child_end, 1)
        self._die()

    def _die(self) -> None:
        os.killpg(os.getpgrp(), signal.SIGKILL)
