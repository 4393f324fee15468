"""The report of a long run: what was required, what was counted, on what machine."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.row import Row
    from tests.chaos.tally import Tally


@dataclass(frozen=True)
class Entry:
    """A row that one pool has gone through."""

    row: Row
    pool: str
    times: int
    tally: Tally
    seconds: float
    trouble: str = ""
    """What kept it from getting to its end."""

    @property
    def holds(self) -> bool:
        """Whether the promise was kept."""
        return self.tally.holds and not self.trouble

    @property
    def verdict(self) -> str:
        """In one word."""
        return "kept" if self.holds else "BROKEN"


def written(entries: Sequence[Entry], server: str) -> str:
    """Return the whole report as Markdown."""
    broken = [entry for entry in entries if not entry.holds]
    lines = [
        "# Promises about workers, put to the test",
        "",
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC · {surroundings(server)}",
        "",
        f"{len(entries)} rows, {len(broken)} broken.",
        "",
        "| row | pool | times | verdict | seconds |",
        "|---|---|---:|---|---:|",
    ]
    lines += [
        f"| {entry.row.words} | {entry.pool} | {entry.times} | {entry.verdict} "
        f"| {entry.seconds:.0f} |"
        for entry in entries
    ]
    for entry in entries:
        lines += ["", f"## {entry.row.name}, {entry.pool}: {entry.verdict}", ""]
        lines += [f"- {fact}" for fact in entry.tally.facts]
        if entry.trouble:
            lines += ["", "```", entry.trouble.strip()[-4000:], "```"]
    return "\n".join(lines) + "\n"


def surroundings(server: str) -> str:
    """Return the versions of all that takes part."""
    known = [f"Python {platform.python_version()}", server]
    for package in ("redis", "hiredis", "Django"):
        try:
            known.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    machine = f"{os.cpu_count()} CPUs, {platform.system()} {platform.release()}"
    return " · ".join([*known, machine])
