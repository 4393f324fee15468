"""Records which statements of a watched tree are executed, also in child processes.

Statements call `see` with their numbers. A test's numbers go to a file whose path is in the
environment, which the processes that the test starts inherit.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: The environment variable with the file's path.
VARIABLE = "QLESS_SEEN"

_seen: set[int] = set()


def see(number: int) -> None:
    """Record a statement, once per test and process."""
    if number in _seen:
        return
    _seen.add(number)
    path = os.environ.get(VARIABLE)
    if path:
        # A line is one write, so that processes do not cut each other's lines.
        with suppress(OSError):
            end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(end, b"%d\n" % number)
            finally:
                os.close(end)


def begin(path: Path) -> None:
    """Record into this file from now on, and what this process has seen before."""
    path.write_text("".join(f"{number}\n" for number in _seen))
    os.environ[VARIABLE] = str(path)


def taken() -> set[int]:
    """Return what was recorded since `begin`, and forget it."""
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).exists():
        return set()
    lines = Path(path).read_text().split()
    Path(path).unlink()
    _seen.clear()
    return set(map(int, lines))
