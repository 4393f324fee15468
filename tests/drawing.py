"""Which variants of a test are run: by day some, drawn by name; by night all."""

from __future__ import annotations

import os
import zlib
from typing import TypeVar

T = TypeVar("T")

#: Set by `make nightly`.
ALL = os.environ.get("QLESS_ALL_CELLS", "") == "1"


def draw(name: str, number: int) -> int:
    """Return a number below `number` that is the same for a name at all times."""
    return zlib.crc32(name.encode("utf-8", "replace")) % number


def part(items: list[T], of: int, first: int = 0) -> list[T]:
    """Return every `of`-th of the items, from the first on; by night all of them."""
    return items if ALL else items[first % of :: of]


def turn(place: int, of: int) -> bool:
    """Return whether this one of `of` places has its turn; by night each has."""
    return ALL or place % of == 0
