"""The files that one job crosses: `python -m benchmarks.walk [--path]`.

Counts, with `sys.setprofile`, the files of the package in which functions are called for
one warm `.delay()` of a plain function, for one job that a worker takes, runs and
finishes, and for one of a busy worker, which takes the next job as it finishes one; and
how often the next call is in another file than the one before. Calls of other packages are
not counted, nor are returns.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import django

from .placement import Placement
from .server import Server, find_binary

PACKAGE = f"{Path(__file__).parents[1] / 'django_qless'}{os.sep}"
WARM = 3
WORKER = "walker"


class Walk(NamedTuple):
    """The calls of one walk, in order."""

    calls: list[tuple[str, str]]
    """The file, below the package, and the function of each call."""

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they are entered first."""
        return list(dict.fromkeys(file for file, _ in self.calls))

    @property
    def legs(self) -> list[tuple[str, list[str]]]:
        """Files with the functions called there before another file is entered."""
        return [
            (file, [function for _, function in calls])
            for file, calls in groupby(self.calls, lambda call: call[0])
        ]

    @property
    def changes(self) -> int:
        """How often a call is in another file than the call before it."""
        return len(self.legs) - 1


def walk_of(function: Callable[[], Any]) -> Walk:
    """Return the calls that a function makes within the package."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            calls.append((file.removeprefix(PACKAGE), frame.f_code.co_name))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return Walk(calls)


def walks(server_url: str, directory: str) -> Iterator[tuple[str, Walk]]:
    """Yield what is walked, and its walk, in a small Django project."""
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "benchmarks.project.settings",
        "BENCH_URL": server_url,
        "BENCH_DIRECTORY": directory,
        "BENCH_TICKS": f"{directory}/ticks",
    }
    django.setup()
    from django_qless.conf.connections import connections
    from django_qless.runtime.environment import DjangoEnvironment
    from django_qless.worker.execution import Execution

    from .project.jobs import noop

    for _ in range(WARM):
        noop.delay(1)
    yield "enqueue: noop.delay(1)", walk_of(lambda: noop.delay(1))

    client = connections["default"]
    execution = Execution(DjangoEnvironment("default"), client, WORKER)

    def take_run_and_finish() -> None:
        (job,) = client.settle(WORKER, [], 1, ("*",)).jobs
        outcome = execution.perform(job)
        client.settle(WORKER, [outcome], 0, ("*",))

    for _ in range(WARM):
        take_run_and_finish()
    yield "work: take, run and finish one job", walk_of(take_run_and_finish)

    for _ in range(2):
        noop.delay(1)
    (job,) = client.settle(WORKER, [], 1, ("*",)).jobs

    def run_finish_and_take() -> None:
        outcome = execution.perform(job)
        client.settle(WORKER, [outcome], 1, ("*",))

    yield "work: run one job, finish it and take the next", walk_of(run_finish_and_take)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="auto", help="redis, valkey or a path")
    parser.add_argument("--path", action="store_true", help="print every call")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="django-qless-bench-") as directory,
        Server(find_binary(given.server), Placement(free=True)) as server,
    ):
        for name, walk in walks(server.url, directory):
            print(f"{name}: {len(walk.files)} files, {walk.changes} changes of file")
            if given.path:
                for file, functions in walk.legs:
                    print(f"    {file:40} {', '.join(functions)}")


if __name__ == "__main__":
    main()
