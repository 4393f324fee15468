"""One change of one module, and what a language has to say for changes to be tried."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import redis


#: Folders of tests that run jobs in Django projects, but for workers' and the admin's.
IN_DJANGO = (
    "tests/checks",
    "tests/conf",
    "tests/declare",
    "tests/enqueue",
    "tests/job_types",
    "tests/management",
    "tests/operations",
    "tests/runtime",
    "tests/schedules",
    "tests/serialization",
    "tests/servers",
    "tests/workflows",
)


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from `start` to `end` of a module become others."""

    module: str
    """The path of the module, from the root of the tree on."""
    start: int
    end: int
    replacement: bytes
    operator: str
    """Kind of change, for the report."""

    def applied(self, source: bytes) -> bytes:
        """Return the module with the change."""
        return source[: self.start] + self.replacement + source[self.end :]

    def line(self, source: bytes) -> int:
        """Return the number of the line where the change begins."""
        return source.count(b"\n", 0, self.start) + 1

    def diff(self, source: bytes, context: int = 3) -> list[str]:
        """Return the change as a unified diff."""
        return list(
            difflib.unified_diff(
                source.decode().splitlines(),
                self.applied(source).decode().splitlines(),
                f"a/{self.module}",
                f"b/{self.module}",
                n=context,
                lineterm="",
            )
        )

    def sides(self, source: bytes) -> tuple[str, str]:
        """Return the changed lines before and after, without indentation."""
        lines = self.diff(source, context=0)[3:]
        return (
            "\n".join(line[1:].strip() for line in lines if line.startswith("-")),
            "\n".join(line[1:].strip() for line in lines if line.startswith("+")),
        )


@dataclass(frozen=True)
class Statement:
    """A statement inside a function: `number` is remembered when it is reached."""

    number: int
    start: int
    end: int


class Language(Protocol):
    """Everything that depends on the language of the modules."""

    name: str
    suites: Sequence[str]
    """Folders of tests, the nearest first."""
    share: float
    """The part of the mutants that may survive."""
    patience: float
    """Seconds of tests that a mutant is given, the likeliest killers first."""

    def rooms(self, module: str) -> Sequence[str]:
        """Return the folders whose tests are to notice a change of a module."""

    def modules(self, root: Path) -> list[str]:
        """Return the paths of the modules, from the root on, sorted."""

    def places(self, module: str, source: bytes) -> list[list[Mutant]]:
        """Return the changes of a module that make sense, by the place they change."""

    def compiles(self, source: bytes) -> bool:
        """Return whether a module is written as the language wants it."""

    def statements(self, source: bytes, first: int) -> list[Statement]:
        """Return the statements inside functions, numbered from `first` on."""

    def watch(self, root: Path, statements: dict[str, list[Statement]]) -> None:
        """Change a copy of the tree so that each statement reached is remembered."""

    def begin(self) -> None:
        """Get ready to record what this process executes."""

    def executed(self) -> Iterable[int]:
        """Return the numbers that this process has executed since the last time."""

    def reached(self, server: redis.Redis) -> Iterable[int]:
        """Return the numbers reached on a server since the last time."""

    def build(self, root: Path) -> None:
        """Make in a copy of the tree what is generated from the modules."""

    def wanted(self, nodeid: str) -> bool:
        """Return whether a test is worth its time for a mutant."""
