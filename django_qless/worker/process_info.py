"""Facts about processes: whether one runs, when it started, how much memory it takes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django_qless import health

# Positions among the fields of /proc/<pid>/stat that follow the program's name.
STATE, STARTED = 0, 19

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


def is_running(pid: int) -> bool:
    """Return whether a process with this id runs; a zombie does not."""
    if pid <= 0 or not health.is_there(pid):
        return False
    fields = _stat_fields(pid)
    return not fields or fields[STATE] != "Z"


def start_time(pid: int) -> str:
    """Return when the process started, in the kernel's ticks; "" where unknown.

    Together with the id it identifies a process forever, also one that has executed
    another program. (Two boots may give two processes the same pair, by rare chance.)
    """
    fields = _stat_fields(pid)
    return fields[STARTED] if fields else ""


def boot_id() -> str:
    """Return what identifies the time since the machine was started; "" if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def boottime() -> float:
    """Return the seconds since the machine was started, suspended or not."""
    return time.clock_gettime(CLOCK)


def this_process() -> dict[str, object]:
    """Return the permanent identity of this process: host, id, and start time."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "born": start_time(pid)}


class Memory(NamedTuple):
    """Memory of a process and its descendants."""

    #: The sum of their resident sets. Pages that they share count for each of them.
    bytes: int
    processes: int


def family_memory(pid: int) -> Memory | None:
    """Return the memory of a process and its descendants; None where unknown."""
    sizes = [size for each in family(pid) if (size := resident(each)) is not None]
    return Memory(sum(sizes), len(sizes)) if sizes else None


def family(pid: int) -> Iterator[int]:
    """Yield the process, then its descendants, as far as the kernel lists them."""
    yield pid
    try:
        # The kernel lists children by the thread that started them.
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except OSError:
            continue
        for child in children.split():
            yield from family(int(child))


def resident(pid: int) -> int | None:
    """Return the bytes of a process that are in memory; None where unknown."""
    try:
        statm = Path(f"/proc/{pid}/statm").read_text()
        return int(statm.split()[1]) * PAGE_SIZE
    except (OSError, IndexError, ValueError):
        return None


def _stat_fields(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
