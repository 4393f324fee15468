"""The command line: make faults, count what becomes of the jobs, write a report.

    python -m tests.chaos.run                        all rows, all pools (make chaos)
    python -m tests.chaos.run --list
    python -m tests.chaos.run --only suspended --pool threads
    python -m tests.chaos.run --quick --report FILE

Ends with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.report import Entry, written
from tests.chaos.row import ALL_POOLS
from tests.chaos.rows import ROWS
from tests.chaos.tally import Tally
from tests.real_servers import Server
from tests.worker.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.chaos.row import Row

REPORT = Path("chaos-report.md")


def perform(row: Row, pool: str, times: int) -> Entry:
    """Go through a row on a server of its own."""
    tally, trouble = Tally(), ""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        Server("valkey", *row.server) as server,
        Stage(server, Path(folder), pool) as stage,
    ):
        try:
            row.act(stage, tally, times)
        except Exception:  # noqa: BLE001  the other rows are to be seen as well
            trouble = traceback.format_exc()
    return Entry(row, pool, times, tally, time.monotonic() - began, trouble)


def chosen(
    only: Sequence[str], pools: Sequence[str], quick: bool
) -> Iterator[tuple[Row, str, int]]:
    """Return the rows to go through, with their pools and how often."""
    for row in ROWS.values():
        if only and row.name not in only:
            continue
        times = row.quick if quick else row.times
        if times:
            for pool in row.pools:
                if pool in pools:
                    yield row, pool, times


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=sorted(ROWS), default=[])
    parser.add_argument("--pool", action="append", choices=ALL_POOLS, default=[])
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--times", type=int, help="instead of each row's own number")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--list", action="store_true", help="say what there is")
    return parser.parse_args()


def main() -> int:
    """Go through the rows that the command line asks for; return the exit code."""
    given = arguments()
    if given.list:
        for row in ROWS.values():
            print(f"{row.name:26} {row.words}")
        return 0
    entries = []
    for row, pool, times in chosen(given.only, given.pool or ALL_POOLS, given.quick):
        print(f"{row.name}, {pool} … ", end="", flush=True)
        entry = perform(row, pool, given.times or times)
        entries.append(entry)
        print(f"{entry.verdict} ({entry.seconds:.0f} s)", flush=True)
        for fact in entry.tally.facts if entry.trouble else entry.tally.broken:
            print(f"    {fact}", flush=True)
        if entry.trouble:
            print(entry.trouble, flush=True)
        # After each row: a run that is cut short has its report as well.
        given.report.write_text(written(entries, version_of_server()))
    print(f"Report: {given.report}")
    return 0 if entries and all(entry.holds for entry in entries) else 1


def version_of_server() -> str:
    """Return the name and version of the servers that are used."""
    import subprocess

    from tests.real_servers import binary

    path = binary("valkey")
    assert path is not None
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    )
    words = dict(word.split("=", 1) for word in said.stdout.split() if "=" in word)
    return f"Valkey {words.get('v', '?')}"


if __name__ == "__main__":
    sys.exit(main())
