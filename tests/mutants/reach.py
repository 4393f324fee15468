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
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from tests.mutants.mutant import Language, Mutant, Statement

CACHE = ROOT / ".mutants"

# What two names have in common if one is made of the other: depends, dependencies.
ALIKE = 5

# What pytest returns if all tests have run: all passed, some failed, there are none.
ENDED = (0, 1, 5)


class Reach:
    """Which tests reach which statements, of one state of the modules.

    `tests` has seconds, whether it passed and the numbers reached, by test; `files` has the
    digests of their files; `imported` are the numbers reached while tests were collected.
    """

    def __init__(
        self,
        language: Language,
        statements: dict[str, list[Statement]],
        files: dict[str, str],
        tests: dict[str, dict[str, Any]],
        imported: Collection[int] = (),
    ) -> None:
        self.language = language
        self.statements = statements
        self.files = files
        self.imported = set(imported)
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
        # The innermost one is the last to begin.
        numbers = [each.number for each in sorted(around, key=lambda each: each.start)]
        numbers = numbers[-1:]
        if not numbers or numbers[0] in self.imported:
            # It runs when the module is loaded.
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
        for path in (ROOT / suite, *(ROOT / suite).glob("**/test_*.py"))
        if path.is_file()
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
    """Run the tests once, or read what an earlier run has found; one room after another.

    It is to have had the same modules and, unless `stale`, the same tests of the room.
    Each room is kept as soon as it is done: a run that was interrupted goes on there.
    """
    statements = numbered(language)
    files = {path: digest([path]) for path in test_files(language)}
    kept = CACHE / f"{language.name}-{digest(language.modules(ROOT))}.json"
    found: dict[str, Any] = {"files": {}, "tests": {}, "rooms": [], "imported": []}
    if kept.exists():
        found |= json.loads(kept.read_text())
    unknown = [
        room
        for room in language.suites
        if room not in found["rooms"]
        or not (stale or within(room, found["files"]) == within(room, files))
    ]
    for room, tests, imported in run(language, statements, jobs, unknown):
        for part, new in (("files", within(room, files)), ("tests", tests)):
            for path in within(room, found[part]):
                del found[part][path]
            found[part] |= new
        found["rooms"] = sorted({*found["rooms"], room})
        found["imported"] = sorted({*found["imported"], *imported})
        keep(kept, found)
    return Reach(
        language, statements, found["files"], found["tests"], found["imported"]
    )


def within(room: str, by_path: dict[str, Any]) -> dict[str, Any]:
    """Return the part of what is listed by paths, or by tests, that is in a room."""
    inside = (f"{room}/", f"{room}::")
    return {
        path: each
        for path, each in by_path.items()
        if path == room or path.startswith(inside)
    }


def keep(path: Path, found: dict[str, Any]) -> None:
    """Write what is known; who reads finds all of it or what was there before."""
    path.parent.mkdir(exist_ok=True)
    half = path.with_suffix(".half")
    half.write_text(json.dumps(found))
    half.replace(path)


def run(
    language: Language,
    statements: dict[str, list[Statement]],
    jobs: int,
    rooms: Sequence[str],
) -> Iterator[tuple[str, dict[str, dict[str, Any]], set[int]]]:
    """Run the tests of rooms on modules that report the statements reached."""
    if not rooms:
        return
    with copied() as tree:
        language.watch(tree, statements)
        for number, room in enumerate(rooms):
            folder = tree.parent / f"room-{number}"
            folder.mkdir()
            yield room, *run_room(language, tree, folder, jobs, room)


def run_room(
    language: Language, tree: Path, folder: Path, jobs: int, room: str
) -> tuple[dict[str, dict[str, Any]], set[int]]:
    """Run the tests of one room; return what each has reached, and what their imports.

    Raises CalledProcessError if they have not run to their end.
    """
    reached, task = folder / "reached", folder / "task.json"
    reached.mkdir()
    task.write_text(json.dumps({"reached": str(reached), "language": language.name}))
    pytest = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin"]
    done = subprocess.run(
        [*pytest, "-n", str(jobs), "--quiet", "--tb=line", room],
        cwd=tree,
        env={**environment(tree), plugin.TASK: str(task)},
        check=False,
    )
    if done.returncode not in ENDED:
        done.check_returncode()
    tests: dict[str, dict[str, Any]] = {}
    imported: set[int] = set()
    for path in sorted(reached.glob("*.json")):
        found = json.loads(path.read_text())
        tests.update(found["tests"])
        imported.update(found["imported"])
    return tests, imported
