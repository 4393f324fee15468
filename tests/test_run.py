"""What a whole run of the tests does with the few that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import processes, run

# Each test appends a line to a file of its name and fails while the file is short enough.
SUITE = """
from pathlib import Path
import pytest

def times(name):
    path = Path(__file__).with_name(name)
    with path.open("a") as file:
        file.write("x")
    return len(path.read_text())

def test_passes():
    assert times("passes") == 1

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("name", ["a@b", "c"])
def test_passes_later(name):
    assert times(name) == 2

@pytest.mark.parametrize("number", range({always}))
def test_fails(number):
    assert not times(f"always{{number}}")
"""
LATER = ["test_suite.py::test_passes_later[a@b]", "test_suite.py::test_passes_later[c]"]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that a whole run takes for the project, without pytest's plugins.

    Each Python of such a run would import Django for them.
    """
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "say_how_long", lambda: None)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = ["-p", "xdist.plugin", "-n", "2", "--dist", "loadgroup"]
    monkeypatch.setattr(processes, "options", lambda: options)
    return tmp_path


def test_those_that_pass_when_repeated_are_named_and_do_not_count(suite: Path) -> None:
    (suite / "test_suite.py").write_text(SUITE.format(always=0))
    tests = run.run_tests([], repeat=True)
    assert (tests.passed, tests.failed) == (True, [])
    assert sorted(tests.passed_when_repeated) == LATER
    assert (suite / "passes").read_text() == "x"


def test_one_that_fails_again_is_a_failure(suite: Path) -> None:
    (suite / "test_suite.py").write_text(SUITE.format(always=1))
    tests = run.run_tests([], repeat=True)
    assert (tests.passed, tests.failed) == (False, ["test_suite.py::test_fails[0]"])
    assert sorted(tests.passed_when_repeated) == LATER


def test_more_than_three_are_not_repeated(suite: Path) -> None:
    (suite / "test_suite.py").write_text(SUITE.format(always=2))
    tests = run.run_tests([], repeat=True)
    assert (tests.passed, tests.passed_when_repeated) == (False, [])
    assert len(tests.failed) == 4
    assert (suite / "always0").read_text() == "x"


def test_a_part_is_not_repeated(suite: Path) -> None:
    (suite / "test_suite.py").write_text(SUITE.format(always=1))
    assert not run.run_tests([], repeat=False).passed
    assert (suite / "c").read_text() == "x"


def test_no_test_at_all_is_a_failure(suite: Path) -> None:
    assert not run.run_tests([], repeat=True).passed


def test_a_file_that_cannot_be_imported_is_not_repeated(suite: Path) -> None:
    broken = suite / "test_broken.py"
    broken.write_text(
        "from pathlib import Path\n"
        "seen = Path(__file__).with_name('seen')\n"
        "if not seen.exists():\n"
        "    raise LookupError\n"
        "def test_this(): pass\n"
    )
    (suite / "test_suite.py").write_text(SUITE.format(always=0))
    (suite / "conftest.py").write_text(
        "from pathlib import Path\n"
        "def pytest_sessionfinish():\n"
        "    Path(__file__).with_name('seen').touch()\n"
    )
    tests = run.run_tests([], repeat=True)
    assert (tests.passed, tests.passed_when_repeated) == (False, [])


def test_a_fresh_checkout_is_compiled_first(suite: Path) -> None:
    folder, ran = suite / "tests", suite / "ran"
    folder.mkdir()
    (folder / "conftest.py").touch()
    for name in ("test_a", "test_b", "test_c"):
        text = f"from pathlib import Path\ndef test(): Path({str(ran)!r}).touch()\n"
        (folder / f"{name}.py").write_text(text)

    def compiled() -> list[str]:
        return sorted(
            path.name.partition(".")[0] for path in folder.glob("__pycache__/*pytest*")
        )

    run.compile_tests()
    assert compiled() == ["conftest", "test_a", "test_b", "test_c"]
    assert not ran.exists()
    for path in folder.glob("__pycache__/test_*"):
        path.unlink()
    run.compile_tests()
    assert compiled() == ["conftest"]
