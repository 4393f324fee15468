"""The files that producers and jobs write, read as they grow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import NamedTuple

#: Seconds by which lines of different processes may be out of order.
OUT_OF_ORDER = 5.0


class Run(NamedTuple):
    """A run of a job."""

    name: str
    queue: str
    #: Which of the workers ran it.
    worker: str
    at: float


class Lines(ABC):
    """A file that grows; a line that is not whole waits for its end."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._rest = b""

    def read(self) -> None:
        """Take what has come."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            self.take(*line.decode().split(" "))

    @abstractmethod
    def take(self, *words: str) -> None:
        """Take a line."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Ledger(Lines):
    """What jobs have written: their runs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.runs: list[Run] = []
        self.names: set[str] = set()

    def take(self, *words: str) -> None:
        """Take a run."""
        name, queue, worker, at = words
        self.runs.append(Run(name, queue, worker, float(at)))
        self.names.add(name)

    def waits_since(
        self, moment: float, consumers: set[tuple[str, str]]
    ) -> dict[tuple[str, str], float]:
        """Return how long each of these did not run a job; nothing before all have.

        A pair of queue and worker is one of them.
        """
        self.read()
        waits: dict[tuple[str, str], float] = {}
        for run in reversed(self.runs):
            if run.at < moment - OUT_OF_ORDER:
                break
            if run.at > moment and (run.queue, run.worker) in consumers:
                waits[run.queue, run.worker] = run.at - moment
        return waits if len(waits) == len(consumers) else {}


class Acknowledgements(Lines):
    """What producers have written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        #: The jobs that were acknowledged, and how many of each queue.
        self.names: set[str] = set()
        self.of_queue: Counter[str] = Counter()
        #: The lines about each queue, of jobs and of refused calls.
        self.answers: Counter[str] = Counter()
        #: Calls that were refused, by their error.
        self.refused: Counter[str] = Counter()
        #: Jobs that are waited for, and those for which that was in vain, with the error.
        self.waiting: set[str] = set()
        self.in_vain: dict[str, str] = {}
        self.waited = 0

    def take(self, *words: str) -> None:
        """Take a line."""
        kind, name, *rest = words
        if kind == "ok":
            self.names.add(name)
            self.of_queue[rest[0]] += 1
            self.answers[rest[0]] += 1
        elif kind == "refused":
            self.answers[name] += 1
            self.refused[rest[0]] += 1
        elif kind == "waiting":
            self.waiting.add(name)
        else:
            self.waiting.discard(name)
            if kind == "waited":
                self.waited += 1
            elif kind == "broken":
                self.refused[rest[0]] += 1
            else:
                self.in_vain[name] = rest[0]
