"""docs/guides/operations.md has a line for each thing that an operator may have to look up.

What there is is found in the code: a new check, exit code or finding of the doctor needs a
line there, a new failure group one in docs/reference/failure-groups.md; and what is gone
needs none.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.public_api.project import checks

PAGE = DOCS / "guides" / "operations.md"
PACKAGE = ROOT / "django_qless"
LUA = ROOT / "lua"

#: What stands for a value, in the page and in what is found here.
ANY = "…"


@cache
def rows(heading: str, page: Path = PAGE) -> list[list[str]]:
    """Return the cells of the tables below a heading."""
    section = page.read_text().partition(f"# {heading}\n")[2]
    lines = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    cells = [
        [
            cell.strip().replace(r"\|", "|")
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]
        ]
        for line in lines
        if line.startswith("|")
    ]
    found = [each for each in cells if not set(each[0]) <= set("-")][1:]
    assert found, f"{page} has no table below {heading!r}"
    return found


def names(heading: str) -> list[str]:
    """Return the names in the first cells of these tables."""
    return [cells[0].strip("`") for cells in rows(heading)]


def trees(*patterns: str) -> Iterator[tuple[Path, ast.Module]]:
    """Return the modules of the package that match, and their syntax trees."""
    for pattern in patterns:
        for path in sorted(PACKAGE.glob(pattern)):
            yield path, ast.parse(path.read_text())


def text_of(node: ast.expr | None) -> str | None:
    """Return the text that an expression gives, with ANY for what is not known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or ANY for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (text_of(node.left) or ANY) + (text_of(node.right) or ANY)
    return None


# System checks.


def test_each_system_check_has_a_line() -> None:
    there = {each.removeprefix("check ") for each in checks()}
    assert sorted(names("System checks")) == sorted(there)


# Failure groups.

#: The constants of the core's modules that name groups.
NAMING = ("GROUP", "UNKNOWN", "OTHER")
#: Exceptions of the package that leave a job as they are: their class is the group.
ESCAPING = ("schedules/ticks.py",)


def lua_texts(source: str, name: str) -> Iterator[str]:
    """Return what a name is given in a module: `name = 'text'`, `a or 'text' .. b`."""
    for names, values in re.findall(
        r"^ *(?:local )?([\w, ]+?) =\s(.+)$", source, re.MULTILINE
    ):
        known = [each.strip() for each in names.split(",")]
        if name in known:
            # (The texts of several names stand in their order, on one line or more.)
            value = values.split(",")[known.index(name)] if len(known) > 1 else values
            if "(" not in value:  # a call: it is from the caller of the command
                for text, more in re.findall(r"'([^']+)'(?: \.\. (\w+))?", value):
                    yield text + (f"<{more}>" if more else "")


def groups_of_lua() -> Iterator[str]:
    """Return the groups in which the core fails jobs."""
    for path in sorted(LUA.rglob("*.lua")):
        source = path.read_text()
        # One line for each assignment: `local A, B =` may go on below.
        source = re.sub(r"=\n\s*", "= ", source)
        source = re.sub(r",\n\s*", ", ", source)
        for name in NAMING:
            yield from lua_texts(source, name)
    # What has no retries left, or had a lock too many, fails here.
    yield from lua_texts((LUA / "core" / "finish.lua").read_text(), "group")


def groups_of_python() -> Iterator[str]:
    """Return the groups in which Python fails jobs."""
    for path, tree in trees("worker/failure_report.py"):
        constants = [each for each in tree.body if isinstance(each, ast.Assign)]
        texts = [text_of(each.value) or "" for each in constants]
        found = [each for each in texts if re.fullmatch(r"[a-z]+(-[a-z]+)*", each)]
        assert found, path
        yield from found
    for path, tree in trees("**/*.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Fail":
                text = text_of(node.args[0]) or constant(tree, node.args[0])
                if text is not None:
                    yield text.replace(ANY, "<queue>")
            elif isinstance(node, ast.ClassDef):
                yield from groups_of_class(node)
        if str(path.relative_to(PACKAGE)) in ESCAPING:
            yield from (
                node.name
                for node in tree.body
                if isinstance(node, ast.ClassDef)
                and ast.unparse(node.bases[0]) == "Exception"
            )


def constant(tree: ast.Module, name: ast.expr) -> str | None:
    """Return the text that a module gives this name at its top, None without one."""
    for each in tree.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == (
            ast.unparse(name)
        ):
            return text_of(each.value)
    return None


def groups_of_class(node: ast.ClassDef) -> Iterator[str]:
    """Return the group of an exception: an attribute, or what is handed to Fail."""
    bases = {ast.unparse(base) for base in node.bases}
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Call)
            and "Fail" in bases
            and ast.unparse(each.func) == "super().__init__"
        ):
            yield text_of(each.args[0]) or ""
        elif (
            isinstance(each, ast.Assign)
            and "Interrupted" in bases
            and ast.unparse(each.targets[0]) == "group"
        ):
            yield text_of(each.value) or ""


def test_each_failure_group_has_its_meaning() -> None:
    core, package = set(groups_of_lua()), set(groups_of_python())
    assert {"corrupt-record", "expired", "other", "unknown-job"} <= core
    assert {"row-gone", "timeout", "bad-arguments", "worker-crash"} <= package
    groups = rows("Failure groups", DOCS / "reference" / "failure-groups.md")
    assert sorted(group.strip("`") for group, *_ in groups) == sorted(core | package)
    assert all(meaning and remedy for _, meaning, remedy in groups)


# Exit codes of the worker.


def exit_codes() -> dict[int, str]:
    """Return the exit codes that the worker gives, and their names in sysexits.h."""
    found = {0: "", 1: "", 2: ""}
    for _, tree in trees("worker/**/*.py", "management/commands/qless_worker.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("EX_"):
                found.setdefault(getattr(os, node.attr), node.attr)
    return found


def test_each_exit_code_of_the_worker_has_a_line() -> None:
    told = {
        int(cells[0]): cells[1].strip("`") for cells in rows("Exit codes of the worker")
    }
    assert told == exit_codes()


# Findings of the doctor.


class Kind(NamedTuple):
    """A kind of finding: what it is about, its level, its text."""

    about: str
    level: str
    text: str | None
    """With ANY for values; None if it is another's text."""

    def is_told_by(self, row: Kind) -> bool:
        """Return whether a row of the page speaks of this."""
        if (self.about, self.level) != (row.about, row.level):
            return False
        if self.text is None or row.text is None:
            return self.text is row.text
        parts = [part.strip() for part in row.text.replace("`", "").split(ANY)]
        pattern = ".*".join(re.escape(part) for part in parts)
        return re.match(pattern, self.text.replace("`", ""), re.DOTALL) is not None


LEVELS = {"hint": "hint", "problem": "PROBLEM"}
SOURCES = [
    PACKAGE / "management" / f"{name}.py"
    for name in ("audit", "doctor", "server_findings")
]


def findings() -> Iterator[Kind]:
    """Return the kinds of findings that need something, as the code has them."""
    found = [ast.walk(ast.parse(source.read_text())) for source in SOURCES]
    calls = [node for node in chain(*found) if isinstance(node, ast.Call)]
    for call in calls:
        function = ast.unparse(call.func)
        if function in LEVELS:
            about = text_of(call.args[0])
            if about is not None:
                yield Kind(about, LEVELS[function], text_of(call.args[1]))
        elif function == "Finding":
            # Its level is that of the message.
            for level in LEVELS.values():
                yield Kind(text_of(call.args[1]) or "", level, None)
        elif function == "if_permitted":
            # (findings, about, what is not checked)
            yield Kind(text_of(call.args[1]) or "", "hint", f"not checked: {ANY}")
    for _, other in trees("worker/server_checks.py"):
        for node in ast.walk(other):
            if isinstance(node, ast.FunctionDef) and node.name == "_too_few_replicas":
                yield Kind("server", "PROBLEM", text_of(node.body[-1].value))
            if isinstance(node, ast.Yield) and (text := text_of(node.value)):
                yield Kind("server", "PROBLEM", text)


def told_findings() -> list[Kind]:
    """Return the findings that the page has; a text in italics is not the doctor's."""
    return [
        Kind(about.strip("`"), level, None if text.startswith("*") else text)
        for about, level, text, _ in rows("Findings of `qless_doctor`")
    ]


def test_each_kind_of_finding_has_a_line() -> None:
    told = told_findings()
    missing = [
        kind for kind in findings() if not any(kind.is_told_by(row) for row in told)
    ]
    assert missing == []


def test_each_line_is_of_a_finding() -> None:
    known = list(findings())
    gone = [
        row
        for row in told_findings()
        if not any(kind.is_told_by(row) for kind in known)
    ]
    assert gone == []


# All of them.


@pytest.mark.parametrize(
    "heading",
    [
        "System checks",
        "Exit codes of the worker",
        "Findings of `qless_doctor`",
    ],
)
def test_each_line_says_what_to_do(heading: str) -> None:
    silent = [cells[0] for cells in rows(heading) if not cells[-1] and cells[0] != "0"]
    assert silent == []
