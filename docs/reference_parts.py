"""What the pages of the reference are made of: tables, and docstrings as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell(each) for each in row)} |"
    yield ""


def cell(value: object) -> str:
    """Return a value as the text of a cell."""
    return " ".join(str(value).replace("|", "\\|").split())


def code(text: object) -> str:
    """Return a text as code, or nothing for none."""
    return f"`{text}`" if str(text) else ""


def sentence(text: str) -> str:
    """Return a line of help as a sentence."""
    text = text.strip()
    return text and f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def prose(docstring: str | None) -> str:
    """Return a docstring as Markdown: its roles and indented blocks are ours."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    out: list[str] = []
    inside = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not inside and (not out or not out[-1]):
            out.append("```text")
            inside = True
        elif inside and line and not indented:
            while not out[-1]:
                out.pop()
            out += ["```", ""]
            inside = False
        out.append(line[4:] if inside else line)
    return "\n".join([*out, "```"] if inside else out)


@cache
def field_docs(cls: type) -> dict[str, tuple[str, str]]:
    """Return the type of each field that a class annotates, and what is said of it.

    That is the docstring below it, or the `#:` comment above.
    """
    source = textwrap.dedent(inspect.getsource(cls))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.ClassDef)
    lines = source.splitlines()
    found: dict[str, tuple[str, str]] = {}
    last = ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            found[last] = (ast.unparse(node.annotation), above(lines, node.lineno))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if last:
                found[last] = (found[last][0], inspect.cleandoc(str(node.value.value)))
            last = ""
        else:
            last = ""
    return found


def above(lines: list[str], number: int) -> str:
    """Return the `#:` comment that ends above a line."""
    said: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#:"):
            break
        said.insert(0, line.strip().removeprefix("#:").strip())
    return " ".join(said)


def comments(module: Any) -> dict[str, str]:
    """Return the `#:` comment above each name that a module assigns."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(module).splitlines():
        if line.startswith("#:"):
            above.append(line[2:].strip())
        elif match := re.match(r"(\w+)(:.*)? = ", line):
            # Names on the lines that follow have the same comment.
            found[match[1]] = " ".join(above)
        else:
            above = []
    return found
