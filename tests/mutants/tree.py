"""Copies of the project's tree, where modules may be changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]

LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "benchmarks", "node_modules")


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """Copy the tree into a folder that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder) / "tree"
        # With the compiled Python, which is as new as its source for shutil's copies.
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT, symlinks=True)
        try:
            yield tree
        finally:
            end_all_in(tree)


def end_all_in(folder: Path) -> None:
    """Kill the processes that work in a folder.

    A change, or the end of its test by force, may leave workers that would run for ever,
    and all further tests beside them.
    """
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.resolve().is_relative_to(folder):
                os.kill(int(link.parent.name), signal.SIGKILL)


def digest(paths: Sequence[str]) -> str:
    """Return a number for the content of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.encode() + b"\0" + (ROOT / path).read_bytes() + b"\0")
    return found.hexdigest()[:16]


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which all programs import a copy of the tree.

    All tests of the core run as functions there, which are quicker.
    """
    return {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "QLESS_ENGINE": "function",
    }
