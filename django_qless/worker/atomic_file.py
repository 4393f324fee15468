"""Replacing a file at once, also in folders where others may write."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

#: A name that exists already, a symbolic link among them, is an error, never followed.
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: Path, text: str) -> None:
    """Replace the file's content; readers see the old or the new one. Raises OSError."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, NEW, 0o666)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
