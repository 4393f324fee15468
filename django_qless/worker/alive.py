"""Is this process there, and is it still the one that had this id?"""

from __future__ import annotations

import os
import time
from pathlib import Path

# Places among the fields of /proc/<pid>/stat that follow the program's name.
STATE, STARTED = 0, 19


def is_alive(pid: int) -> bool:
    """Return whether a process with this id runs; one that nobody waits for does not."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except PermissionError:
        # It is somebody else's.
        return True
    fields = _fields(pid)
    return not fields or fields[STATE] != "Z"


def birth(pid: int) -> str:
    """Return when the process began, in the kernel's words; "" where these are unknown.

    Together with the id it names a process for ever, also one that has become another
    program. (Two boots of a machine may name two processes alike, by rare chance.)
    """
    fields = _fields(pid)
    return fields[STARTED] if fields else ""


def began_after(pid: int, moment: float) -> bool:
    """Return whether the process certainly began after this moment of the epoch.

    Both are read from clocks of some slowness, so a second or two do not count.
    """
    ticks = birth(pid)
    if not ticks:
        return False
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    age = since_boot - int(ticks) / os.sysconf("SC_CLK_TCK")
    return time.time() - age > moment + 2


def _fields(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
