"""Calls to the server as text, as they stand in an entry."""

from __future__ import annotations

import json
from collections.abc import Iterator

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
    if call.name in ("put", "put.many"):
        for job, _ in _rows(call):
            yield job["jid"], job["klass"], job["data"]


def single_puts(call: Command[object]) -> Iterator[tuple[str, Command[object]]]:
    """Yield the jobs of a put.many one by one, each with its jid.

    What is put only because another job of the call depends on it stays with that.
    """
    head = call.args[:3]
    some: list[str] = []
    for job, values in _rows(call):
        some += values
        if not job.get("spare"):
            yield job["jid"], Command(call.name, (*head, *some), call.kind)
            some = []


def _rows(call: Command[object]) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield what a put says of each job by name, and the values of its row."""
    _, shape, columns, *values = (str(argument) for argument in call.args)
    common, names = json.loads(shape), columns.split()
    for at in range(0, len(values), len(names)):
        row = values[at : at + len(names)]
        yield common | dict(zip(names, row, strict=True)), row


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield what was packed: a length and as many bytes, in turn."""
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        size = int(data[at + 1 : end])
        yield data[end + 2 : end + 2 + size]
        at = end + 4 + size
