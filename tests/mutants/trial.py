"""Tries mutants: does any test notice the change?"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants import plugin
from tests.mutants.tree import ROOT, copied, environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.mutant import Mutant
    from tests.mutants.reach import Reach

# A test that takes longer than this, and so many times as long as without a change,
# hangs. To start and to end takes longer where the processors have other work.
LEAST = 20.0
FACTOR = 10
START = 180.0

# What a change that fills the memory may have of it.
MEMORY = 4 << 30


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    killer: str = ""
    """The test that noticed it, if any."""
    how: str = ""
    seconds: float = 0
    tests: int = 0

    @property
    def survived(self) -> bool:
        """Whether no test noticed it."""
        return not self.killer


@dataclass(frozen=True)
class Run:
    """One run of pytest on a mutant: the test that it ended at, and why."""

    stopped_at: str = ""
    hung: bool = False


class Trial:
    """One mutant in a copy of the tree, before its tests."""

    def __init__(self, tree: Path, reach: Reach) -> None:
        self.tree = tree
        self.reach = reach

    def judge(self, tests: Sequence[str], files: Sequence[str]) -> tuple[str, str]:
        """Return the first test that notices the change, and how; or two empty texts.

        Behind `files` there are further tests, of which nothing is known: they come first.
        A test that fails or hangs is run again by itself: only what repeats counts.
        """
        fickle: list[str] = []
        while tests or files:
            run = self.run(tests, files, fickle)
            if not run.stopped_at:
                break
            again = self.run([run.stopped_at], [], [])
            if again.stopped_at:
                return run.stopped_at, "hangs" if again.hung else "fails"
            fickle.append(run.stopped_at)
            if run.stopped_at in tests:
                tests, files = tests[tests.index(run.stopped_at) + 1 :], []
            elif "::" not in run.stopped_at:
                break
        return "", ""

    def run(
        self, tests: Sequence[str], files: Sequence[str], fickle: Sequence[str]
    ) -> Run:
        """Run tests in this order, behind those of the files of which nothing is known."""
        progress = self.tree.parent / "progress"
        progress.write_text("")
        task = self.tree.parent / "task.json"
        words = {
            "progress": str(progress),
            "language": self.reach.language.name,
            "order": list(tests),
            "files": list(files),
            "known": [*self.reach.tests, *fickle] if files else [],
        }
        task.write_text(json.dumps(words))
        named = sorted({*files, *(nodeid.partition("::")[0] for nodeid in tests)})
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin"),
                *("-n", "0", "-x", "--quiet", "--tb=no", *named),
            ],
            cwd=self.tree,
            env={**environment(self.tree), plugin.TASK: str(task)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Its servers end when it does; what it has started else is of its group.
            start_new_session=True,
            preexec_fn=limit_memory,
        )
        try:
            return self.watch(process, progress, named)
        finally:
            end(process)

    def watch(
        self, process: subprocess.Popen[bytes], progress: Path, named: Sequence[str]
    ) -> Run:
        """Wait for the end of a run, or until one test takes far too long.

        A module that cannot be imported fails in the file that needs it; where a conftest
        or a plugin needs it, pytest does not get as far as naming a file. A test may end
        the whole process, or keep it from ending.
        """
        size, since = 0, time.monotonic()
        while True:
            try:
                code = process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                code = None
            lines = progress.read_text().splitlines()
            last = json.loads(lines[-1]) if lines else None
            if code is not None:
                failed = [
                    each[1] for each in map(json.loads, lines) if each[0] == "failed"
                ]
                if failed:
                    return Run(failed[0])
                if code in {0, 5}:
                    return Run()
                assert last is None or last[0] == "begins", f"pytest ended with {code}"
                return Run(last[1] if last else named[0])
            if len(lines) != size:
                size, since = len(lines), time.monotonic()
            limit = START
            if last and last[0] != "ends":
                limit = max(LEAST, FACTOR * self.reach.seconds(last[1]))
            if time.monotonic() - since > limit:
                begun = [nodeid for _, nodeid in map(json.loads, lines) if nodeid]
                return Run((begun or named[:1])[-1], hung=True)


def limit_memory() -> None:
    """Keep a change that fills the memory from taking all of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def end(process: subprocess.Popen[bytes]) -> None:
    """End a run and all that is of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def affordable(
    tests: Sequence[str], seconds: float, reach: Reach
) -> tuple[list[str], float]:
    """Return the tests that take no longer than this, from the first on; what is left."""
    found = []
    for test in tests:
        seconds -= reach.seconds(test)
        if seconds < 0:
            break
        found.append(test)
    return found, max(0.0, seconds)


def tried(mutant: Mutant, reach: Reach) -> Verdict:
    """Apply a change to a copy of the tree and run the tests that reach it."""
    began = time.monotonic()
    language = reach.language
    with copied() as tree:
        (tree / mutant.module).write_bytes(
            mutant.applied((ROOT / mutant.module).read_bytes())
        )
        language.build(tree)
        trial = Trial(tree, reach)
        killer, how = "", ""
        number = 0
        left = language.patience
        for group, files in reach.groups(mutant):
            tests, left = affordable(group, left, reach)
            number += len(tests)
            killer, how = trial.judge(tests, files)
            if killer:
                break
    return Verdict(killer, how, time.monotonic() - began, number)
