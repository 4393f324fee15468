"""Whether changed code works, by a trial in a fresh process."""

from __future__ import annotations

import sys
import time
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
    return found


def trial() -> str:
    """Return why the code does not work, "" if it does."""
    steps = reload.CodeWatch().trial_error()
    try:
        while True:
            time.sleep(next(steps))
    except StopIteration as end:
        error: str = end.value
        return error


def trials(tmp_path: Path) -> list[str]:
    return (tmp_path / "trials").read_text().splitlines()


def test_a_trial_ends_as_the_command_does(command: Command, tmp_path: Path) -> None:
    assert trial() == "broken"
    (tmp_path / "main.py").write_text("raise SystemExit(3)")
    assert trial() == "exit code 3"
    (tmp_path / "main.py").write_text("")
    assert trial() == ""
    assert trials(tmp_path) == [f"--pool prefork {reload.TRIAL}"] * 3


def test_a_trial_that_does_not_end(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "TRIAL_TIMEOUT", 0.5)
    (tmp_path / "main.py").write_text("import time; time.sleep(60)")
    assert trial() == "it did not load in 0.5 s"


def test_a_trial_that_cannot_begin(command: Command, tmp_path: Path) -> None:
    command[0] = str(tmp_path / "no-such-python")
    error = trial()
    assert error.startswith("it cannot be tried: ")
    assert "no-such-python" in error


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
