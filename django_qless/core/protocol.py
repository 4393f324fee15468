"""Redis's protocol: arguments of commands, batches of them, and the reply to INFO.

`connection.py` packs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from .arguments import CALL_BYTES

# Bytes that a batch leaves to the rest of its command: worker, queues, options.
_ROOM = 96 * 1024


class Packed(NamedTuple):
    """Arguments that are bytes already."""

    number: int
    data: bytes


Argument: TypeAlias = str | bytes | int | float | Packed


def batches(
    pieces: Iterable[tuple[int, int, bytes]], most: int
) -> Iterator[tuple[int, Packed]]:
    """Cut packed items into batches that one command may have, in order.

    A piece says how many items it holds, how many arguments, and its bytes; it is not
    cut. Yields how many items a batch has, and the batch: at most `most` items, and 1 MiB.
    """
    number = count = size = 0
    batch: list[bytes] = []
    for items, more, piece in pieces:
        full = number + items > most or size + len(piece) > CALL_BYTES - _ROOM
        if number and full:
            yield number, Packed(count, b"".join(batch))
            number = count = size = 0
            batch = []
        batch.append(piece)
        number += items
        count += more
        size += len(piece)
    if number:
        yield number, Packed(count, b"".join(batch))


#: The reply to INFO by name: whole numbers as such, the rest as text.
ServerInfo: TypeAlias = dict[str, "str | int"]


def read_info(text: str) -> ServerInfo:
    """Read the reply to INFO."""
    found: ServerInfo = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not name.startswith("#"):
            found[name] = int(value) if value.isdecimal() else value
    return found
