"""Every run of a job, recorded outside Redis, and the counts that show what went wrong.

Jobs append lines to a file: a line is one write, so it is whole, and stays, whoever is
killed right after it. Times are of the clock that all processes of a machine share and
nobody sets.

    start  name run time                   a run of the job `name` has begun
    end    name run time                   it has ended as it should
    left   name run time why               an exception has left it
    told   name run time why               an exception came, and it goes on
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_numbers = itertools.count(1)


def write(path: str, *words: object) -> None:
    """Append a line; called by jobs."""
    line = " ".join(map(str, words)) + "\n"
    end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(end, line.encode())
    finally:
        os.close(end)


@contextmanager
def recorded(path: str, name: object) -> Iterator[str]:
    """Record the run of a job around its body; gives the name of the run."""
    # (A process id comes again, soon where each job has a process.)
    run = f"{os.getpid()}.{next(_numbers)}.{time.monotonic_ns()}"
    write(path, "start", name, run, time.monotonic_ns())
    try:
        yield run
    except BaseException as error:
        write(path, "left", name, run, time.monotonic_ns(), type(error).__name__)
        raise
    write(path, "end", name, run, time.monotonic_ns())


@dataclass
class Run:
    """One run of a job. Times are in seconds, of the monotonic clock."""

    name: str
    id: str
    start: float
    end: float | None = None
    """When it ended as it should; None if it did not (yet)."""
    left: str = ""
    """The exception that left it."""
    told: list[str] = field(default_factory=list)
    """The exceptions that it was told of and did not let out."""

    @property
    def pid(self) -> int:
        """The process in which it ran."""
        return int(self.id.partition(".")[0])

    @property
    def is_open(self) -> bool:
        """Whether nothing is known of its end."""
        return self.end is None and not self.left


class Runs:
    """The reader's side of the file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        path.touch()
        self._file = path.open("rb")
        self._rest = b""
        self._runs: dict[str, Run] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def all(self) -> list[Run]:
        """Return all runs so far, in the order in which they began."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            what, name, run, nanoseconds, *why = line.decode().split(" ")
            self._take(what, name, run, int(nanoseconds) / 1e9, why)
        return list(self._runs.values())

    def of(self, name: object) -> list[Run]:
        """Return the runs of the job of this name."""
        return [run for run in self.all() if run.name == str(name)]

    def ended(self) -> list[Run]:
        """Return the runs that have ended as they should."""
        return [run for run in self.all() if run.end is not None]

    def at_once(self) -> int:
        """Return how many runs there were at the same time, at most."""
        steps = []
        for run in self.all():
            steps.append((run.start, 1))
            if run.end is not None:
                steps.append((run.end, -1))
        most = now = 0
        for _, step in sorted(steps):
            now += step
            most = max(most, now)
        return most

    def _take(self, what: str, name: str, run: str, at: float, why: list[str]) -> None:
        if what == "start":
            self._runs[run] = Run(name, run, at)
        elif what == "end":
            self._runs[run].end = at
        elif what == "left":
            self._runs[run].left = why[0]
        else:
            self._runs[run].told += why


class Counts(NamedTuple):
    """What a ledger says of the jobs that were expected to run."""

    expected: int
    lost: int
    """Jobs without a run that ended as it should."""
    unexpected: int
    """Runs of jobs that nobody has put."""
    repeated: int
    """Runs that ended as they should after another of the same job had."""
    recovered: int
    """Jobs of which a run was cut short and a later one ended as it should."""
    overlapping: int
    """Pairs of runs of the same job that ended, and went on at the same time."""


def count(expected: Collection[object], runs: Iterable[Run]) -> Counts:
    """Compare the runs with the names of the jobs that were put."""
    names = {str(name) for name in expected}
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    ended = Counter(
        run.name for of_one in by_name.values() for run in of_one if run.end is not None
    )
    return Counts(
        expected=len(names),
        lost=sum(not ended[name] for name in names),
        unexpected=sum(
            len(of_one) for name, of_one in by_name.items() if name not in names
        ),
        repeated=sum(times - 1 for times in ended.values()),
        recovered=sum(
            bool(ended[name]) and any(run.end is None for run in by_name[name])
            for name in names & by_name.keys()
        ),
        overlapping=sum(map(overlaps, by_name.values())),
    )


def overlaps(runs: Iterable[Run]) -> int:
    """Return how many pairs of neighbouring ended runs went on at the same time."""
    spans = sorted((run.start, run.end) for run in runs if run.end is not None)
    return sum(second[0] < first[1] for first, second in itertools.pairwise(spans))


class Latch:
    """A file that lets go on, for ever, all jobs that wait for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.path = str(path)

    def open(self) -> None:
        """Let all go on."""
        self._path.touch()


def is_open(latch: str) -> bool:
    """Return whether a latch is open; asked by jobs, again and again."""
    return os.path.exists(latch)
