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


def jobs(call: Command[object]) -> Iterator[tuple[str, str, str]]:
    """Yield the jobs that a call puts: jid, name and data of each."""
    args = [str(argument) for argument in call.args]
    if call.name == "put":
        _, _, jid, name, data, *_ = args
        yield jid, name, data
    elif call.name == "put.many":
        for at, _ in _items(args[1:]):
            jid, _, name, data = args[1 + at : 5 + at]
            yield jid, name, data


def single_puts(call: Command[object]) -> Iterator[tuple[str, Command[object]]]:
    """Yield the jobs of a put.many one by one, each with its jid.

    What is put only because another job of the call depends on it stays with that.
    """
    worker, *args = (str(argument) for argument in call.args)
    begin = 0
    for at, end in _items(args):
        if not _is_optional(args[at + 6 : end]):
            yield args[at], Command(call.name, (worker, *args[begin:end]), call.kind)
            begin = end


def _items(args: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each job of a put.many begins and ends."""
    at = 0
    while at < len(args):
        end = at + 6 + 2 * int(args[at + 5])
        yield at, end
        at = end


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
