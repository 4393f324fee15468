"""Changes the core at one place at a time and asks whether any test notices.

    python -m tests.mutants.run                       40 mutants of lua/ (make mutants)
    python -m tests.mutants.run --seed 7 --count 10 --module settle --module pop
    python -m tests.mutants.run --language python     40 mutants of django_qless/
    python -m tests.mutants.run --list                what would be tried

The first run after a change of the modules runs all tests once, to learn which of them
reach which place; all seeds share what it learns. If it is interrupted, the next run goes
on with the room that was not done; a change of tests costs only their room. A mutant of
Python is given three minutes of tests, those named for its module first.

Ends with 1 if more mutants survive than the language allows: of Lua one in twenty, of
Python three. As many may be known to change nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import TYPE_CHECKING

from tests.mutants.drawing import draw
from tests.mutants.equivalents import EQUIVALENTS
from tests.mutants.languages import LANGUAGES
from tests.mutants.reach import measured
from tests.mutants.tree import ROOT
from tests.mutants.trial import tried

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.mutants.mutant import Language, Mutant
    from tests.mutants.reach import Reach
    from tests.mutants.trial import Verdict


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--language", choices=sorted(LANGUAGES), default="lua")
    parser.add_argument("--seed", default="1", help="draws others")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--module", action="append", default=[], help="only these")
    parser.add_argument(
        "--stale", action="store_true", help="learn nothing anew if only tests changed"
    )
    parser.add_argument("--list", action="store_true", help="draw, try none")
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    parser.add_argument("--jobs", type=int, default=jobs, help="tried at a time")
    return parser.parse_args()


def reason(mutant: Mutant) -> str:
    """Return why a change is none, or an empty text."""
    before, after = mutant.sides((ROOT / mutant.module).read_bytes())
    for known in EQUIVALENTS:
        if known[:3] == (mutant.module, before, after):
            return known.reason
    return ""


def title(mutant: Mutant) -> str:
    """Return where a mutant is and of what kind."""
    line = mutant.line((ROOT / mutant.module).read_bytes())
    return f"{mutant.module}:{line} ({mutant.operator})"


def show(mutant: Mutant) -> None:
    """Print a change."""
    print("\n".join(mutant.diff((ROOT / mutant.module).read_bytes())), flush=True)


def most_survivors(language: Language, drawn: int) -> int:
    """Return how many of the mutants drawn may survive."""
    return int(drawn * language.share + 1e-9)


def is_enough(language: Language, drawn: int, survived: int, equivalent: int) -> bool:
    """Return whether the tests notice what they have to notice."""
    return max(survived, equivalent) <= most_survivors(language, drawn)


def main() -> int:
    """Try mutants; return the exit code."""
    given = arguments()
    language = LANGUAGES[given.language]
    drawn = list(islice(draw(language, ROOT, given.seed, given.module), given.count))
    if given.list:
        for mutant in drawn:
            show(mutant)
        return 0
    began = time.monotonic()
    reach = measured(language, given.jobs, given.stale)
    equivalents = [mutant for mutant in drawn if reason(mutant)]
    wanted = [mutant for mutant in drawn if not reason(mutant)]
    survivors = []
    for number, (mutant, verdict) in enumerate(judged(wanted, reach, given.jobs), 1):
        fate = f"{verdict.how} {verdict.killer}"
        if verdict.survived:
            survivors.append(mutant)
            fate = f"SURVIVED {verdict.tests} tests"
        seconds = f"({verdict.seconds:.0f} s)"
        print(f"{number}/{len(wanted)} {title(mutant)}: {fate} {seconds}", flush=True)
        if verdict.survived:
            show(mutant)
    for mutant in equivalents:
        print(f"Not tried: {title(mutant)}: {reason(mutant)}")
        show(mutant)
    print("\nSurvivors" if survivors else "\nNone survived.")
    for mutant in survivors:
        print(f"\n{title(mutant)}")
        show(mutant)
    print(
        f"\nSeed {given.seed}: {len(drawn)} drawn, {len(wanted) - len(survivors)} killed, "
        f"{len(survivors)} survived, {len(equivalents)} known to change nothing "
        f"(at most {most_survivors(language, len(drawn))} each); "
        f"{(time.monotonic() - began) / 60:.1f} minutes"
    )
    return 0 if is_enough(language, len(drawn), len(survivors), len(equivalents)) else 1


def judged(
    mutants: Sequence[Mutant], reach: Reach, jobs: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """Return what becomes of each mutant, as soon as it is known."""
    with ThreadPoolExecutor(jobs) as pool:
        tasks = {pool.submit(tried, mutant, reach): mutant for mutant in mutants}
        for task in as_completed(tasks):
            yield tasks[task], task.result()


if __name__ == "__main__":
    sys.exit(main())
