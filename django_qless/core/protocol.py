"""Redis's protocol: arguments of commands as bytes, and the reply to INFO.

Packing here and not in redis-py saves two thirds of its time: the part of a request that
is always the same is packed once (`script.py`), and so are batches (`put.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from .arguments import CALL_BYTES, decimal_text, quoted
from .exceptions import BadArgument

# Bytes that a batch leaves to the rest of its command: worker, queues, options.
_ROOM = 96 * 1024


class Packed(NamedTuple):
    """Arguments that are bytes already."""

    number: int
    data: bytes


Argument: TypeAlias = str | bytes | int | float | Packed


def pack(arguments: Iterable[Argument]) -> Packed:
    """Return the arguments as bytes; raise BadArgument for what cannot be sent."""
    pieces = []
    more = 0
    try:
        for argument in arguments:
            if type(argument) is str:
                text = argument.encode()
            elif type(argument) is int:
                text = b"%d" % argument
            elif type(argument) is Packed:
                pieces.append(argument.data)
                more += argument.number - 1
                continue
            else:
                text = _encoded(argument)
            pieces.append(b"$%d\r\n%b\r\n" % (len(text), text))
    except UnicodeEncodeError as error:
        raise BadArgument(
            f"{quoted(error.object)} cannot be sent: it has a lone surrogate, which "
            f"UTF-8 lacks"
        ) from None
    return Packed(len(pieces) + more, b"".join(pieces))


def pack_command(*arguments: Argument) -> bytes:
    """Return the bytes of one command."""
    return b"*%d\r\n%b" % pack(arguments)


def pack_request(start: Packed, request_id: str, args: Iterable[Argument]) -> bytes:
    """Return the bytes of a command to the core that begins so."""
    number, head = start
    more, rest = pack((request_id, *args))
    return b"*%d\r\n%b%b" % (number + more, head, rest)


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


def _encoded(argument: object) -> bytes:
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, (int, float)) and not isinstance(argument, bool):
        return decimal_text(argument).encode()
    raise BadArgument(
        f"{quoted(argument)} cannot be sent: give text, bytes or a number"
    )


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
