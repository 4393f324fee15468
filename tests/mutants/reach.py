"""The tests as they are without a change: how long each takes, what each reaches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.mutants import plugin
from tests.mutants.drawing import stem
from tests.mutants.tree import ROOT, copied, digest, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mutants.mutant import Language, Mutant, Statement

CACHE = ROOT / ".mutants"

# What two names have in common if one is made of the other: depends, dependencies.
ALIKE = 5


class Reach:
    """Which tests reach which statements, of one state of the modules.

    `tests` has seconds, whether it passed and the numbers reached, by test; `files` has the
    digests of their files.
    """

    def __init__(
        self,
        language: Language,
        statements: dict[str, list[Statement]],
        files: dict[str, str],
        tests: dict[str, dict[str, Any]],
    ) -> None:
        self.language = language
        self.statements = statements
        self.files = files
        self.tests = {
            nodeid: test for nodeid, test in tests.items() if test.get("passed")
        }
        self.by_number: dict[int, list[str]] = defaultdict(list)
        for nodeid, test in self.tests.items():
            for number in test["reached"]:
                self.by_number[number].append(nodeid)

    def seconds(self, nodeid: str) -> float:
        """Return how long a test takes."""
        seconds: float = self.tests.get(nodeid, {}).get("seconds", 1.0)
        return seconds

    def changed(self) -> list[str]:
        """Return the files of tests that have come or changed since."""
        return [
            path
            for path in test_files(self.language)
            if self.files.get(path) != digest([path])
        ]

    def is_watched(self, module: str) -> bool:
        """Return whether any test has told that it reached the module."""
        return any(self.by_number.get(each.number) for each in self.statements[module])

    def reaching(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach the changed place, the quickest first."""
        around = [
            each
            for each in self.statements[mutant.module]
            if each.start <= mutant.start and mutant.end <= each.end
        ]
        if around:
            # The innermost one is the last to begin.
            numbers = [max(around, key=lambda each: each.start).number]
        else:
            # What stands outside functions runs when the library is loaded.
            numbers = [each.number for each in self.statements[mutant.module]]
        found = {nodeid for number in numbers for nodeid in self.by_number[number]}
        if not found and not self.is_watched(mutant.module):
            found = set(self.tests)
        return sorted(found, key=lambda nodeid: (self.seconds(nodeid), nodeid))

    def groups(self, mutant: Mutant) -> Iterator[tuple[list[str], list[str]]]:
        """Return the tests in groups, the likeliest killers first, the quickest before.

        With each group come the files in which there may be others, as they have changed.
        """
        tests, changed = self.reaching(mutant), self.changed()
        for suite in self.language.rooms(mutant.module):
            for named in (True, False):

                def belongs(name: str, suite: str = suite, named: bool = named) -> bool:
                    file = name.partition("::")[0]
                    return file.startswith(suite) and is_named(file, mutant) is named

                group, files = (
                    list(filter(belongs, tests)),
                    list(filter(belongs, changed)),
                )
                if group or files:
                    yield group, files


def is_named(file: str, mutant: Mutant) -> bool:
    """Return whether a file of tests is named for the module."""
    return any(are_alike(word, stem(mutant.module)) for word in stem(file).split("_"))


def are_alike(one: str, two: str) -> bool:
    """Return whether two names are about the same."""
    return one == two or (len(one) >= ALIKE and one[:ALIKE] == two[:ALIKE])


def test_files(language: Language) -> list[str]:
    """Return the files of tests that a language's modules have."""
    return sorted(
        str(path.relative_to(ROOT))
        for suite in language.suites
        for path in (ROOT / suite).glob("**/test_*.py")
    )


def numbered(language: Language) -> dict[str, list[Statement]]:
    """Return the statements of all modules."""
    statements: dict[str, list[Statement]] = {}
    first = 0
    for module in language.modules(ROOT):
        statements[module] = language.statements((ROOT / module).read_bytes(), first)
        first += len(statements[module])
    return statements


def measured(language: Language, jobs: int, stale: bool = False) -> Reach:
    """Run all tests once, or read what an earlier run has found.

    That is to have had the same modules and, unless `stale`, the same tests.
    """
    statements = numbered(language)
    files = {path: digest([path]) for path in test_files(language)}
    kept = CACHE / f"{language.name}-{digest(language.modules(ROOT))}.json"
    found = json.loads(kept.read_text()) if kept.exists() else None
    if found is None or not (stale or found["files"] == files):
        found = {"files": files, "tests": run(language, statements, jobs)}
        CACHE.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
    return Reach(language, statements, found["files"], found["tests"])


def run(
    language: Language, statements: dict[str, list[Statement]], jobs: int
) -> dict[str, dict[str, Any]]:
    """Run all tests on modules that report the statements reached."""
    with copied() as tree:
        language.watch(tree, statements)
        reached = tree.parent / "reached"
        reached.mkdir()
        task = tree.parent / "task.json"
        task.write_text(
            json.dumps({"reached": str(reached), "language": language.name})
        )
        pytest = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin"]
        subprocess.run(
            [*pytest, "-n", str(jobs), "--quiet", "--tb=line", *language.suites],
            cwd=tree,
            env={**environment(tree), plugin.TASK: str(task)},
            check=False,
        )
        tests: dict[str, dict[str, Any]] = {}
        for path in sorted(reached.glob("*.json")):
            tests.update(json.loads(path.read_text()))
    return tests
