"""Calls to the server as text, as they stand in an entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from django_qless.core.connection import pack
from django_qless.core.request import Command


def written(call: Command[object]) -> str:
    """Return a call as JSON: its name, and its arguments as texts."""
    texts = [text.decode() for text in _pieces(pack(call.args).data)]
    return json.dumps([call.name, texts], ensure_ascii=False, separators=(",", ":"))


def read(text: str) -> Command[object]:
    """Return the call that was written."""
    name, args = json.loads(text)
    return Command(name, tuple(args), "write")


def single_puts(call: Command[object]) -> Iterator[tuple[str, Command[object]]]:
    """Yield the jobs of a put.many one by one, each with its jid.

    What is put only because another job of the call depends on it stays with that.
    """
    worker, *args = (str(argument) for argument in call.args)
    at = begin = 0
    while at < len(args):
        jid, pairs = args[at], args[at + 6 : at + 6 + 2 * int(args[at + 5])]
        at += 6 + len(pairs)
        if not _is_optional(pairs):
            yield jid, Command(call.name, (worker, *args[begin:at]), call.kind)
            begin = at


def _is_optional(pairs: Sequence[str]) -> bool:
    return "spare" in pairs[::2]


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield what was packed: a length and as many bytes, in turn."""
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        size = int(data[at + 1 : end])
        yield data[end + 2 : end + 2 + size]
        at = end + 4 + size
