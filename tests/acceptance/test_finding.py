"""Which files the example looks at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codebase.finding import python_files, standard_library


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("pass\n")


def test_own_python_files_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/z.py", "a/notes.txt", "a.py", "a/b/c.py")
    assert [found.path for found in python_files(tmp_path)] == [
        "a.py",
        "b.py",
        "a/z.py",
        "a/b/c.py",
    ]


def test_what_belongs_to_somebody_else_is_left_out(tmp_path: Path) -> None:
    make(
        tmp_path,
        "own.py",
        ".hidden/a.py",
        "lib/site-packages/a.py",
        "__pycache__/a.py",
        "environment/a.py",
        "environment/pyvenv.cfg",
    )
    (tmp_path / "directory.py").mkdir()
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [found.path for found in python_files(tmp_path)] == ["own.py"]


def test_size_and_time_are_those_of_the_file(tmp_path: Path) -> None:
    make(tmp_path, "a.py")
    os.utime(tmp_path / "a.py", (1_000, 2_000))
    (found,) = python_files(tmp_path)
    assert (found.size, found.modified) == (5, 2_000)


def test_a_name_that_is_not_unicode_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, "good.py", os.fsdecode(b"bad\xff.py"))
    assert [found.path for found in python_files(tmp_path)] == ["good.py"]
    assert "not Unicode" in caplog.text


def test_the_standard_library_has_as_many_files_as_the_demo_wants() -> None:
    assert 600 <= len(list(python_files(standard_library()))) <= 1_800
