"""The project's files as they were at an earlier commit."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextlib.contextmanager
def unpacked(commit: str, *paths: str) -> Iterator[Path]:
    """Context manager: a folder with these paths as of a commit.

    Raises ValueError if the commit or a path of it is unknown.
    """
    command = ["git", "archive", "--format=tar", commit, *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"{commit}: {done.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory(prefix="django-qless-commit-") as folder:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tree:
            tree.extractall(folder)
        yield Path(folder)
