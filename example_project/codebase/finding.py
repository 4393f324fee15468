"""Finds the Python files of a directory. Knows nothing of Django."""

from __future__ import annotations

import logging
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

SOMEBODY_ELSES = {"site-packages", "dist-packages", "__pycache__", "node_modules"}


class Found(NamedTuple):
    """A Python file: its path below the root, its bytes, when it was last changed."""

    path: str
    size: int
    modified: float


def standard_library() -> Path:
    """The directory of the running Python's standard library, its tests included."""
    return Path(sysconfig.get_path("stdlib"))


def python_files(root: Path) -> Iterator[Found]:
    """Yields the `.py` files under `root` in order of their paths.

    Leaves out hidden directories, installed packages and virtual environments, and does
    not follow links to directories. A file name that is not Unicode is left out with a
    warning: neither the database nor JSON could hold it.
    """
    for directory, names, files in os.walk(root):
        here = Path(directory)
        names[:] = sorted(name for name in names if _is_own_code(here / name))
        for name in sorted(files):
            path = here / name
            if path.suffix != ".py" or not path.is_file():
                continue
            if not _is_unicode(name):
                logger.warning("left out: %r is not Unicode", path)
                continue
            state = path.stat()
            relative = path.relative_to(root).as_posix()
            yield Found(relative, state.st_size, state.st_mtime)


def _is_own_code(directory: Path) -> bool:
    return (
        not directory.name.startswith(".")
        and directory.name not in SOMEBODY_ELSES
        and not (directory / "pyvenv.cfg").exists()
        and _is_unicode(directory.name)
    )


def _is_unicode(name: str) -> bool:
    """Returns whether a name is text: os.walk marks other bytes by surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
