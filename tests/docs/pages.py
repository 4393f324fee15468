"""The pages of the documentation, and the blocks of code in them.

What becomes of a block is told by its language and by a mark in a comment above it:

    ```python           run, in the order of the page; the process is the same for a page
    # shop/jobs.py      a block that begins with a file's name is that file, or more of it
    ```sh               run, a command a line
    ```output           what the block above it prints; `…` stands for what varies in a
                        line, a line with nothing else for any number of lines
    ```text             a drawing, a form, a file: not looked at
    <!-- instead -->            the file begins again with this block
    <!-- only checked -->       settings that Django's checks look at, and nothing else
    <!-- when all has run -->   run when no job is ready or running
    <!-- not run: reason -->    not run
    <!-- not compared: reason -->   output, in a ```text, that is not looked at
    <!-- fails: group -->       the failure groups in which jobs of this page end
    <!-- in order -->           a page that makes its project itself, step by step
    <!-- in the background -->  a program that stays, on such a page
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import django

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r" *(`{3,})(\S*)(.*)")
_MARK = re.compile(r" *<!-- (.*?) -->")
_FILE = re.compile(r"# (\S+\.py)\n")


@dataclass(frozen=True)
class Block:
    """A block of code."""

    page: str
    line: int
    """The number of its first line in the page."""
    language: str
    code: str
    mark: str = ""
    follows_code: bool = False
    """True if code stands right above it, with nothing but an empty line between."""
    output: str = ""
    """What it has to print, "" if the page does not say."""

    @property
    def file(self) -> str:
        """The file that it belongs to, "" for one that is run."""
        match = _FILE.match(self.code) if self.language == "python" else None
        return match[1] if match else ""

    @property
    def is_run(self) -> bool:
        """True if a test runs it."""
        return self.language in ("python", "sh") and not self.mark.startswith("not run")


@dataclass
class Page:
    """A page."""

    name: str
    """Its path below the project's root."""
    blocks: list[Block] = field(default_factory=list)
    failures: set[str] = field(default_factory=set)
    in_order: bool = False


@cache
def pages() -> list[Page]:
    """Return the README and all pages of docs/."""
    return [read(path) for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))]


def read(path: Path) -> Page:
    """Return a page with its blocks."""
    page = Page(str(path.relative_to(ROOT)))
    mark = ""
    ends_at = -9  # the line of the last fence
    lines = enumerate(path.read_text().splitlines(), start=1)
    for number, line in lines:
        if said := _MARK.fullmatch(line):
            mark = said[1]
            if mark.startswith("fails: "):
                page.failures = set(mark.removeprefix("fails: ").split(", "))
            page.in_order |= mark == "in order"
        elif fence := _FENCE.fullmatch(line):
            body = "\n".join(_until(fence[1], lines)) + "\n"
            code = _for_this_django(body)
            near = number - bool(mark) <= ends_at + 2
            follows = near and page.blocks[-1].language in ("python", "sh")
            if fence[2] == "output" and follows:
                page.blocks[-1] = replace(page.blocks[-1], output=code)
            made = Block(page.name, number + 1, fence[2], code, mark, follows)
            page.blocks.append(made)
            ends_at = number + 1 + body.count("\n")
            mark = ""
        elif line:
            mark = ""
    return page


def _until(fence: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    for _, line in lines:
        if line.strip() == fence:
            return
        yield line


def _for_this_django(code: str) -> str:
    """Return the code as the docs say that it is for this version of Django."""
    if django.VERSION >= (6, 0):
        return code
    return code.replace("django.tasks", "django_tasks")
