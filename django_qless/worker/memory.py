"""How much memory a worker takes, with all the processes that it has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """Of a process and its descendants."""

    #: Their resident sets together, in bytes. Pages that a parent and its children share
    #: count for each of them.
    bytes: int
    processes: int


def of_family(pid: int) -> Memory | None:
    """Return what a process and its descendants take; None where that is not known."""
    sizes = [size for each in family(pid) if (size := resident(each)) is not None]
    return Memory(sum(sizes), len(sizes)) if sizes else None


def family(pid: int) -> Iterator[int]:
    """Yield the process, then its descendants, as far as the kernel tells them."""
    yield pid
    try:
        # The kernel keeps children by the thread that started them.
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
    """Return the bytes of a process that are in memory; None where that is not known."""
    try:
        statm = Path(f"/proc/{pid}/statm").read_text()
        return int(statm.split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return None
