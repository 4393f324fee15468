"""Instructions that a server executes, counted by valgrind's callgrind.

A time depends on what else the machine does, an instruction count does not: two runs of
one build differ by less than half a percent. It says nothing of caches and of the kernel's work,
and the server is about fifty times slower meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

OUTPUT = (
    "BENCH_CALLGRIND"  # environment variable: the file that counts are written into
)


class CallgrindMissing(Exception):
    """No valgrind. Install it (Debian: valgrind), or leave out --instructions."""


def under_callgrind(output: Path) -> list[str]:
    """Return the words before a command whose instructions are counted."""
    if not shutil.which("valgrind"):
        raise CallgrindMissing(CallgrindMissing.__doc__)
    return [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        f"--callgrind-out-file={output}",
    ]


def start_count(pid: int) -> None:
    """Count from here, if the server of this environment is one that counts."""
    if OUTPUT in os.environ:
        _control("--zero", pid)


def counted(pid: int) -> int | None:
    """Return the instructions since `start_count`; None if they are not counted."""
    if OUTPUT not in os.environ:
        return None
    output = Path(os.environ[OUTPUT])
    _control("--dump", pid)
    dumped = max(
        output.parent.glob(output.name + ".*"), key=lambda path: path.stat().st_mtime_ns
    )
    lines = dumped.read_text().splitlines()
    dumped.unlink()
    return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))


def _control(what: str, pid: int) -> None:
    subprocess.run(
        ["callgrind_control", what, str(pid)], check=True, stdout=subprocess.DEVNULL
    )
