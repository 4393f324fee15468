"""What counts as killed: a test that fails or hangs each time it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import run, trial
from tests.mutants.equivalents import EQUIVALENTS
from tests.mutants.lua import Lua
from tests.mutants.mutant import Mutant, Statement
from tests.mutants.reach import Reach
from tests.mutants.tree import ROOT
from tests.mutants.trial import Trial

TESTS = """
import os
from pathlib import Path
from threading import Event, Thread

def test_passes():
    Path("passed").touch()

def test_fails():
    assert False

def test_fails_once():
    ran = Path("ran").exists()
    Path("ran").touch()
    assert ran

def test_hangs():
    Event().wait()

def test_hangs_once():
    ran = Path("ran").exists()
    Path("ran").touch()
    if not ran:
        Event().wait()

def test_ends_all():
    os._exit(1)

def test_keeps_the_process():
    Thread(target=Event().wait).start()

def test_after():
    Path("after").touch()
"""


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """A tree with tests that are none of the project's, and need none of its plugins."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(trial, "LEAST", 2.0)
    monkeypatch.setattr(trial, "FACTOR", 1)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "test_all.py").write_text(TESTS)
    return Trial(tree, Reach(Lua(), {}, {}, {}))


def judge(tried: Trial, *names: str) -> tuple[str, str]:
    """Return the name of the killer, and how it killed."""
    killer, how = tried.judge([f"test_all.py::test_{name}" for name in names], [])
    return killer.removeprefix("test_all.py::test_"), how


def test_a_test_that_fails_kills(tried: Trial) -> None:
    assert judge(tried, "passes", "fails", "after") == ("fails", "fails")
    assert (tried.tree / "passed").exists()
    assert not (tried.tree / "after").exists()


def test_a_mutant_survives_what_passes(tried: Trial) -> None:
    assert judge(tried, "after", "passes") == ("", "")
    assert (tried.tree / "passed").exists()


def test_what_fails_once_kills_nothing_and_the_rest_is_run(tried: Trial) -> None:
    assert judge(tried, "fails_once", "after") == ("", "")
    assert (tried.tree / "after").exists()


def test_what_hangs_kills_when_it_hangs_again(tried: Trial) -> None:
    assert judge(tried, "hangs") == ("hangs", "hangs")
    assert judge(tried, "hangs_once", "after") == ("", "")
    assert (tried.tree / "after").exists()


def test_one_that_ends_the_whole_process_kills(tried: Trial) -> None:
    assert judge(tried, "passes", "ends_all", "after") == ("ends_all", "fails")


def test_one_that_keeps_the_process_from_ending_kills(
    tried: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "START", 3.0)
    keeper = ("keeps_the_process", "hangs")
    assert judge(tried, "passes", "keeps_the_process") == keeper
    # It is said of the last one; that is run again by itself.
    assert judge(tried, "keeps_the_process", "after") == ("", "")


def test_what_hangs_before_the_first_test_kills(
    tried: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "START", 3.0)
    (tried.tree / "conftest.py").write_text("import time; time.sleep(60)")
    assert tried.judge(["test_all.py::test_after"], []) == ("test_all.py", "hangs")


def test_a_file_that_cannot_be_imported_kills(tried: Trial) -> None:
    (tried.tree / "test_none.py").write_text("import nowhere")
    order = ["test_none.py::test_any", "test_all.py::test_after"]
    assert tried.judge(order, []) == ("test_none.py", "fails")


def test_a_conftest_that_cannot_be_imported_kills(tried: Trial) -> None:
    (tried.tree / "conftest.py").write_text("import nowhere")
    assert tried.judge(["test_all.py::test_after"], []) == ("test_all.py", "fails")


def test_tests_of_which_nothing_is_known_are_run_first(tried: Trial) -> None:
    (tried.tree / "test_new.py").write_text("def test_new(): assert False")
    order = ["test_all.py::test_fails"]
    assert tried.judge(order, ["test_new.py"]) == ("test_new.py::test_new", "fails")


def mutant(start: int, end: int) -> Mutant:
    """Return a change of this place."""
    return Mutant("lua/tags.lua", start, end, b"", "any")


def test_the_tests_that_reach_the_innermost_statement_are_run() -> None:
    tests = {
        "tests/lua/test_get.py::outer": [0],
        "tests/lua/test_get.py::inner": [0, 1],
        "tests/lua/test_tags_priority_track.py::inner": [0, 1],
        "tests/core/test_pages_commands.py::inner": [1],
        "tests/core/test_pages_commands.py::broken": [1],
    }
    known = {
        name: {"seconds": 1.0, "passed": "broken" not in name, "reached": reached}
        for name, reached in tests.items()
    }
    statements = {"lua/tags.lua": [Statement(0, 10, 90), Statement(1, 20, 30)]}
    reach = Reach(Lua(), statements, {}, known)
    reach.changed = list  # type: ignore[method-assign]
    assert [group for group, _ in reach.groups(mutant(21, 22))] == [
        ["tests/lua/test_tags_priority_track.py::inner"],
        ["tests/lua/test_get.py::inner"],
        ["tests/core/test_pages_commands.py::inner"],
    ]
    assert "tests/lua/test_get.py::outer" in reach.reaching(mutant(11, 12))
    # Outside of functions, or run while tests were collected: all that enter the module.
    assert len(reach.reaching(mutant(0, 1))) == 4
    reach.imported = {1}
    assert len(reach.reaching(mutant(21, 22))) == 4


def test_a_mutant_is_given_so_many_seconds_of_tests() -> None:
    known = {
        name: {"seconds": seconds, "passed": True, "reached": []}
        for name, seconds in (("a", 2.0), ("b", 3.0), ("c", 1.0))
    }
    reach = Reach(Lua(), {}, {}, known)
    assert trial.affordable(["a", "b", "c"], 5, reach) == (["a", "b"], 0)
    assert trial.affordable(["a", "b", "c"], 4, reach) == (["a"], 0)
    assert trial.affordable(["a"], 7, reach) == (["a"], 5)


@pytest.mark.parametrize(
    ("survived", "equivalent", "enough"),
    [(2, 2, True), (3, 0, False), (0, 3, False), (0, 0, True)],
)
def test_thirty_eight_of_forty_are_enough(
    survived: int, equivalent: int, enough: bool
) -> None:
    assert run.is_enough(Lua(), 40, survived, equivalent) is enough


def test_each_change_that_is_none_has_a_reason_and_a_place() -> None:
    for known in EQUIVALENTS:
        assert len(known.reason) > 20, known
        source = (ROOT / known.module).read_text()
        lines = {line.strip() for line in source.splitlines()}
        assert set(known.before.splitlines()) <= lines, known
