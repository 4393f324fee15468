"""Whether changed code works: how that is tried, and how it is waited for."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from django_qless.management import reload

Command = list[str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command of a worker that records each trial and ends as main.py says."""
    (tmp_path / "main.py").write_text("raise SystemExit('broken')")
    code = (
        "import sys\n"
        "print(*sys.argv[1:], file=open('trials', 'a'))\n"
        "exec(open('main.py').read())\n"
    )
    found = [sys.executable, "-c", code, "--pool", "prefork"]
    program = SimpleNamespace(command=found, directory=tmp_path)
    monkeypatch.setattr(reload, "Program", lambda: program)
    monkeypatch.setattr(reload, "own_folders", lambda: [tmp_path])
    return found


def trials(tmp_path: Path) -> list[str]:
    return (tmp_path / "trials").read_text().splitlines()


def test_a_trial_ends_as_the_command_does(command: Command, tmp_path: Path) -> None:
    assert reload.code_error() == "broken"
    (tmp_path / "main.py").write_text("raise SystemExit(3)")
    assert reload.code_error() == "exit code 3"
    (tmp_path / "main.py").write_text("")
    assert reload.code_error() == ""
    assert trials(tmp_path) == [f"--pool prefork {reload.TRIAL}"] * 3


def test_a_trial_that_does_not_end(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "TRIAL_TIMEOUT", 0.5)
    (tmp_path / "main.py").write_text("import time; time.sleep(60)")
    assert reload.code_error() == "it did not load in 0.5 s"


def test_a_trial_that_cannot_begin(command: Command, tmp_path: Path) -> None:
    command[0] = str(tmp_path / "no-such-python")
    error = reload.code_error()
    assert error.startswith("it cannot be tried: ")
    assert "no-such-python" in error


def test_broken_code_is_tried_again_when_it_has_changed(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "IDLE_PAUSE", 0.05)

    def mend() -> None:
        (tmp_path / "new.py").write_text("")
        (tmp_path / "new.py").replace(tmp_path / "main.py")

    timer = threading.Timer(1.0, mend)
    timer.start()
    try:
        reload.wait_for_working_code()
    finally:
        timer.join()
    # (The last change may be seen in two steps.)
    assert 2 <= len(trials(tmp_path)) <= 3
    assert (tmp_path / "main.py").read_text() == ""


def test_which_files_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(name: str, moment: float) -> None:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (moment, moment))

    def found() -> set[str]:
        return {file.name for file in changes.find()}

    loaded = [tmp_path / "a.so", tmp_path / "gone.py"]
    monkeypatch.setattr(reload, "iter_all_python_module_files", lambda: loaded)
    monkeypatch.setattr(reload, "own_folders", lambda: [tmp_path])
    monkeypatch.setattr(reload, "loading_since", lambda: 100.0)
    monkeypatch.setattr(reload, "time", SimpleNamespace(time=lambda: 200.0))
    changes = reload.CodeChanges()
    for moment in (99, 100, 101, 200, 201):
        save(f"at_{moment}.py", moment)
    save("a.so", 150)
    assert found() == {"at_101.py", "at_200.py"}
    assert found() == set()
    save("at_201.py", 99)
    save("new.py", 1)
    assert found() == {"at_201.py", "new.py"}


def test_the_files_of_a_folder_are_those_of_its_packages(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "static").mkdir()
    names = ("jobs.py", "inner/__init__.py", "inner/b.py", "static/c.py", "d.txt")
    for name in names:
        (package / name).touch()
    found = {str(file.relative_to(package)) for file in reload.python_files(package)}
    assert found == {*names[:3]}
    assert list(reload.python_files(tmp_path / "gone")) == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("", "unknown"),
        ("Traceback:\n  a = b\nNameError: b\n\n", "NameError: b"),
        ("?: (E1) Wrong.\n\tHINT: Mend it.", "?: (E1) Wrong."),
    ],
)
def test_the_line_that_tells_most(error: str, line: str) -> None:
    assert reload.summary_line(error) == line
