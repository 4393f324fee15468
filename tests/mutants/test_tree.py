"""Copies of the tree, and what may go on in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.mutants.tree import copied, end_all_in


def sleeper(folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that works in a folder, and would end too late for its test."""
    program = "import time; time.sleep(60)"
    return subprocess.Popen([sys.executable, "-c", program], cwd=folder)


def test_what_works_in_a_folder_is_ended(tmp_path: Path) -> None:
    inside, outside = tmp_path / "tree" / "deep", tmp_path / "tree2"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
    ended, left = sleeper(inside), sleeper(outside)
    end_all_in(tmp_path / "tree")
    assert ended.wait(20) == -9
    assert left.poll() is None
    left.kill()
    left.wait()


def test_a_copy_leaves_nothing_behind() -> None:
    with copied() as tree:
        process = sleeper(tree)
    assert process.wait(20) == -9
    assert not tree.exists()
