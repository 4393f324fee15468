"""Runs blocks of the README inside a project, and looks whether they do what they say.

    python readme_steps.py blocks.json

An expression with `# → text` behind it, or below it, must have a value of which that is
the repr.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import django

ARROW = "# → "
PATIENCE = 180.0


class Untrue(Exception):
    """The README says something that is not so."""


class Expecting(ast.NodeTransformer):
    """Has each expression compared that says what its value is."""

    def __init__(self, code: str) -> None:
        self.lines = [*code.splitlines(), ""]

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        last, below = self.lines[node.end_lineno - 1 : node.end_lineno + 1]
        said = last if ARROW in last else below.strip()
        if ARROW not in said or (said is not last and not said.startswith(ARROW)):
            return node
        expected = ast.Constant(said.partition(ARROW)[2])
        name = ast.Name("must_be", ast.Load())
        call = ast.Call(name, [node.value, expected], [])
        return ast.copy_location(ast.Expr(call), node)


def must_be(value: Any, expected: str) -> None:
    if repr(value) != expected:
        raise Untrue(f"{value!r} where the README says {expected}")


def run(block: dict[str, Any], names: dict[str, Any]) -> None:
    tree = Expecting(block["code"]).visit(ast.parse(block["code"]))
    tree = ast.increment_lineno(ast.fix_missing_locations(tree), block["line"] - 1)
    exec(compile(tree, "README.md", "exec"), names)


def wait_for_jobs() -> None:
    """Waits until nothing is ready or running. Raises Untrue."""
    from django_qless import queues

    deadline = time.monotonic() + PATIENCE
    while open_ones := [
        counts
        for counts in queues.counts()
        if counts.waiting or counts.running or counts.stalled
    ]:
        if time.monotonic() > deadline:
            raise Untrue(f"no worker runs what is in {open_ones}")
        time.sleep(0.05)


def main() -> None:
    blocks = json.loads(Path(sys.argv[1]).read_text())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    sys.path.insert(0, os.getcwd())
    django.setup()
    from django_qless import failures

    names: dict[str, Any] = {"__name__": "readme", "must_be": must_be}
    for block in blocks:
        if block["mark"] == "when all has run":
            wait_for_jobs()
        run(block, names)
    wait_for_jobs()
    print(json.dumps(failures.groups()))


if __name__ == "__main__":
    main()
