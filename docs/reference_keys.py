"""The page of the keys in Redis: the glossary of lua/core/keys.lua as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from reference_parts import code, table

HEAD = ("key", "type", "what it holds; of a sorted set (zset), member → score")
TYPES = "hash|zset|list|set|string"

#: What refers readers of the Lua code to other parts of it.
REFERENCES = re.compile(
    r"[:;] see [\w.]+(?= and|[.)]|$)|\s*\((?:Those of|A job's record) .*\)"
)

#: What is code in the text of a comment: names in angle brackets, with what they stand in.
NAMES = re.compile(r"(?:\w+:)*<\w*>(?:[:-]<\w+>)*|''")

Row = list[str]


def keys(source: Path) -> Iterator[str]:
    """Yield the tables of the keys, section by section."""
    text = source.read_text()
    begin = text.index("local PATTERNS = {")
    end = text.index("\n}\n", begin)
    rows: list[Row] = []
    for line, below in pairwise(read(text[begin:end])):
        if isinstance(line, list):
            rows.append(line)
        elif isinstance(below, list) and not below[2]:
            # The key had no room for it.
            below[2] = line
        else:
            yield from tabled(rows)
            rows = []
            # Keys of the wire protocol follow the others without a heading.
            yield marked(line) and marked(line).rstrip(".:") + "."
            yield ""
    yield from tabled(rows)


def tabled(rows: list[Row]) -> Iterator[str]:
    """Yield a table of these keys, if there are any."""
    if rows:
        yield from table(HEAD, [shown(row) for row in rows])


def shown(row: Row) -> Row:
    """Return a row of the glossary as a row of Markdown."""
    key, its_type, text = row
    return [code(key), its_type, marked(text)]


def marked(text: str) -> str:
    """Return a comment as Markdown."""
    text = REFERENCES.sub("", text).replace("->", "→")
    return NAMES.sub(lambda match: code(match[0]), text)


def read(glossary: str) -> Iterator[Row | str]:
    """Yield the keys of the glossary in their order, and comments between them."""
    said: list[str] = []
    row: Row | None = None
    for line in [*glossary.splitlines(), ""]:
        bare = line.strip()
        if match := re.match(rf"\w+ = '([^']*)',\s*--\s*({TYPES})\b\s*(.*)", bare):
            if said:
                yield section(said)
                said = []
            if row:
                yield row
            row = [match[1], match[2], match[3]]
        elif row and re.match(r"--\s{20,}", bare):
            row[2] += f" {bare[2:].strip()}"
        elif bare.startswith("--") and line[:1] == " ":
            if row:
                yield row
                row = None
            said.append(bare[2:].removeprefix(" "))
        elif said:
            yield section(said)
            said = []
    if row:
        yield row
    # What is behind the last one: nothing.
    yield ""


def section(said: list[str]) -> str:
    """Return a comment as Markdown; what is indented in it is a list."""
    lines = [
        f"; `{line.split()[0]}`: {' '.join(line.split()[1:])}"
        if line[:1] == " "
        else f" {line}"
        for line in said
    ]
    return "".join(lines).replace(":;", ":", 1).strip()
