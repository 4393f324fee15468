"""Compares the Lua core of this tree with that of an earlier commit, call by call.

    python -m tests.core.against COMMIT
    python -m tests.core.against COMMIT --sequences 100 --seed 7 --keys

Each build has a server of its own. Both are given the same random sequences of calls,
with the same clock: a third of them without KEYS, a third with, a third both. What they
answer and publish has to be the same; what they store too, after calls without KEYS (and
with --keys after all of them). rules.py names what may differ. Of a difference the
shortest sequence that shows it is printed. Ends with 1 if there was any.

Redis before 7.2 keeps sets in an order of its own, which shows here and there: the servers
are Valkeys unless --server says else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tests.core.against import builds
from tests.core.against.comparison import Comparison, Difference
from tests.core.against.sequences import KINDS
from tests.real_servers import KINDS as SERVERS

#: Sequences that are made on one pair of servers.
SHARE = 20


class Task(NamedTuple):
    """What one process is to compare: sequences by number."""

    old: Path
    new: Path
    server: str
    keys: bool
    seed: str
    numbers: range
    length: int


class Finding(NamedTuple):
    """A difference; in a sequence that `steps` repeats; None: it did not come again."""

    title: str
    kind: tuple[str, str]
    text: str


def compare(task: Task) -> list[Finding]:
    """Make sequences on both builds; return what differed, each kind once."""
    found: dict[tuple[str, str], Finding] = {}
    with Comparison(task.old, task.new, task.server, keys=task.keys) as comparison:
        for number in task.numbers:
            kind = KINDS[number % len(KINDS)]
            difference = comparison.search(f"{task.seed}:{number}", kind, task.length)
            if difference and difference.kind not in found:
                title = f"Seed {task.seed}, sequence {number} ({kind})"
                finding = judged(comparison, title, difference, kind)
                found.setdefault(finding.kind, finding)
    return list(found.values())


def judged(
    comparison: Comparison, title: str, difference: Difference, kind: str
) -> Finding:
    """Return a difference in as few steps as show it."""
    keys = comparison.keys or kind == KINDS[0]
    again = comparison.confirmed(difference, keys=keys)
    if again is None:
        return Finding(title, ("", ""), f"(did not come again) {difference}")
    return Finding(title, again.kind, str(again))


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        prog="tests.core.against",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("commit", help="whose core is compared with that of this tree")
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--length", type=int, default=60, help="steps of each")
    parser.add_argument("--seed", default="1", help="draws others")
    parser.add_argument(
        "--from", type=int, default=0, help="the first sequence's number"
    )
    parser.add_argument("--keys", action="store_true", help="compare keys in all cases")
    parser.add_argument("--server", choices=SERVERS, default="valkey")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--most", type=int, default=5, help="differences to stop after")
    return parser.parse_args()


def tasks(given: argparse.Namespace, folder: Path) -> Iterator[Task]:
    """Build both cores, and yield what is to be compared."""
    old = builds.write(builds.earlier(given.commit), folder / "old.lua")
    new = builds.write(builds.present(), folder / "new.lua")
    first = getattr(given, "from")
    for start in range(first, first + given.sequences, SHARE):
        numbers = range(start, min(start + SHARE, first + given.sequences))
        yield Task(
            old, new, given.server, given.keys, given.seed, numbers, given.length
        )


def main() -> int:
    """Compare; return the exit code."""
    given, found = arguments(), dict[tuple[str, str], Finding]()
    done = 0
    with (
        tempfile.TemporaryDirectory(prefix="django-qless-against-") as folder,
        ProcessPoolExecutor(given.jobs) as pool,
    ):
        running = {
            pool.submit(compare, task): task for task in tasks(given, Path(folder))
        }
        for future in as_completed(running):
            done += len(running[future].numbers)
            for finding in future.result():
                if finding.kind not in found:
                    found[finding.kind] = finding
                    print(f"\n{finding.title}: {finding.text}\n", flush=True)
            print(f"\r{done}/{given.sequences}", end="", file=sys.stderr, flush=True)
            if len(found) >= given.most:
                pool.shutdown(cancel_futures=True)
                break
    print(file=sys.stderr)
    real = [finding for finding in found.values() if finding.kind != ("", "")]
    print(f"{done} sequences of {given.length} steps, {len(real)} differences")
    return 1 if real else 0


if __name__ == "__main__":
    sys.exit(main())
