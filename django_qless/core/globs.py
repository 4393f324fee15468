"""Globs of queues: * and ? stand for any characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def is_glob(name: str) -> bool:
    """Return whether this may match any number of queues."""
    return "*" in name or "?" in name


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether one of these names and globs matches this queue."""
    return any(pattern(glob).fullmatch(name) for glob in globs)


@lru_cache(maxsize=256)
def pattern(glob: str) -> re.Pattern[str]:
    """Return a glob with * and ? as a regular expression."""
    escaped = re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(escaped, re.DOTALL)
