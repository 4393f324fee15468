"""What is known of the tests is kept room by room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import reach
from tests.mutants.lua import Lua


class Learning:
    """Two rooms with a test each, and the rooms whose tests have run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.language = Lua()
        self.language.suites = ("tests/one", "tests/two")
        self.ran: list[str] = []
        self.fails_in = ""
        for room in self.language.suites:
            self.write(room, "def test_it(): pass\n")

    def write(self, room: str, text: str) -> None:
        """Write a room's test."""
        file = self.root / room / "test_it.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(
        self, language: object, statements: object, jobs: int, rooms: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, Any], set[int]]]:
        """Stand for the run of rooms."""
        for room in rooms:
            if room == self.fails_in:
                raise subprocess.CalledProcessError(2, room)
            self.ran.append(room)
            test = {"seconds": 1.0, "passed": True, "reached": [len(self.ran)]}
            yield room, {f"{room}/test_it.py::test_it": test}, set()

    def learn(self, *, stale: bool = False) -> list[str]:
        """Learn what is not known; return the rooms that ran for it."""
        self.ran.clear()
        found = reach.measured(self.language, 1, stale)
        assert sorted(found.tests) == [
            f"{room}/test_it.py::test_it" for room in self.language.suites
        ]
        return list(self.ran)


@pytest.fixture
def learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Learning:
    found = Learning(tmp_path)
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    monkeypatch.setattr("tests.mutants.tree.ROOT", tmp_path)
    monkeypatch.setattr(reach, "CACHE", tmp_path / ".mutants")
    monkeypatch.setattr(reach, "run", found.run)
    return found


def test_what_is_known_is_not_learnt_again(learning: Learning) -> None:
    assert learning.learn() == ["tests/one", "tests/two"]
    assert learning.learn() == []


def test_a_changed_test_costs_its_room(learning: Learning) -> None:
    learning.learn()
    learning.write("tests/two", "def test_it(): assert True\n")
    assert learning.learn(stale=True) == []
    assert learning.learn() == ["tests/two"]
    assert learning.learn() == []


def test_an_interrupted_run_goes_on_where_it_was(learning: Learning) -> None:
    learning.fails_in = "tests/two"
    with pytest.raises(subprocess.CalledProcessError):
        learning.learn()
    learning.fails_in = ""
    assert learning.learn() == ["tests/two"]


def test_tests_that_did_not_run_to_their_end_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(reach, "ENDED", (0, 5))
    with pytest.raises(subprocess.CalledProcessError):
        reach.run_room(Lua(), tmp_path, tmp_path, 1, "tests/none")
