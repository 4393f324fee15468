"""Runs blocks of a page inside a project, and looks whether they do what they say.

    python steps.py set up              migrations and checks
    python steps.py run blocks.json     the blocks

In a command $JID is the job of the page's variable `handle`.

An expression with `# → text` behind it, or below it, must have a value of which that is
the repr.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import django

ARROW = "# → "
PATIENCE = 180.0


class Untrue(Exception):
    """The page says something that is not so."""


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
        raise Untrue(f"{value!r} where the page says {expected}")


def must_have_printed(printed: str, lines: str) -> None:
    """Look for these lines in this order. Words with figures may have others."""
    left = iter(printed.splitlines())
    for line in filter(None, lines.splitlines()):
        words = [
            r"\S+" if re.search("[0-9]", word) else re.escape(word)
            for word in line.split()
        ]
        pattern = re.compile(r"\s+".join(words))
        if not any(pattern.fullmatch(other.strip()) for other in left):
            raise Untrue(f"{line!r} is not what the commands print:\n{printed}")


def run(block: dict[str, Any], names: dict[str, Any]) -> None:
    """Run a block. Raises whatever it raises, and Untrue."""
    if block["language"] == "text":
        must_have_printed(names["printed"], block["code"])
        return
    if block["language"] == "sh":
        command = ["bash", "-euc", block["code"]]
        jid = {"JID": names["handle"].jid} if "handle" in names else {}
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **jid},
        )
        print(done.stdout)
        done.check_returncode()
        names["printed"] = done.stdout
        return
    tree = Expecting(block["code"]).visit(ast.parse(block["code"]))
    tree = ast.increment_lineno(ast.fix_missing_locations(tree), block["line"] - 1)
    exec(compile(tree, block["page"], "exec"), names)


def wait_for_jobs() -> None:
    """Wait until nothing is ready or running. Raises Untrue."""
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


def run_all(path: str) -> None:
    """Run the blocks of a file, and print the failure groups."""
    from django_qless import failures

    names: dict[str, Any] = {"__name__": "page", "must_be": must_be}
    for block in json.loads(Path(path).read_text()):
        if block["mark"] == "when all has run":
            wait_for_jobs()
        run(block, names)
    wait_for_jobs()
    print(json.dumps(failures.groups()))


def set_up() -> None:
    """Make migrations for all apps, migrate, and check."""
    from django.apps import apps
    from django.core.management import call_command

    own = [
        each.label
        for each in apps.get_app_configs()
        if Path(each.path).parent == Path.cwd()
    ]
    call_command("makemigrations", *own, verbosity=0)
    call_command("migrate", verbosity=0)
    call_command("check")


def main() -> None:
    """Do what the command line asks for."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    sys.path.insert(0, str(Path.cwd()))
    django.setup()
    if sys.argv[1] == "run":
        run_all(sys.argv[2])
    else:
        set_up()


if __name__ == "__main__":
    main()
