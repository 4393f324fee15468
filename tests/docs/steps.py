"""Runs blocks of a page inside a project, and looks whether they do what they say.

    python steps.py set up              migrations and checks
    python steps.py run blocks.json     the same, then the blocks, beside a worker
    python steps.py check a b           Django's checks, with settings after settings

Each in one process, of which the worker and the checks are forks: to import Django is
half of what a page costs.

An expression with `# → text` behind it, or below it, must have a value of which that is
the repr. What is printed must be the output that stands below the block, if there is one.
"""

from __future__ import annotations

import ast
import importlib
import io
import json
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import time
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.process import BaseProcess

ARROW = "# → "
PATIENCE = 180.0

#: What needs no settings to be imported, and is imported with any.
IMPORTED_BY_ALL = ("django.contrib.admin", "django_qless.operations")


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


def must_print(printed: str, expected: str) -> None:
    """Compare what is printed with a page. Raises Untrue.

    `…` stands for anything in a line, alone in its line for any number of lines. Columns
    are as wide as what is in them, so their width is not compared.
    """
    pattern = ""
    for line in lines_of(expected):
        parts = map(re.escape, line.split("…"))
        pattern += r"(?:.*\n)*?" if line == "…" else ".*".join(parts) + r"\n"
    if not re.fullmatch(pattern, "".join(f"{line}\n" for line in lines_of(printed))):
        raise Untrue(f"printed was\n{printed}\nwhere the page says\n{expected}")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without the spaces of columns."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def run(block: dict[str, Any], names: dict[str, Any]) -> None:
    """Run a block. Raises whatever it raises, and Untrue."""
    if block["language"] == "sh":
        command = ["bash", "-euc", block["code"]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise Untrue(f"{block['code']}\nends in {done.returncode}: {done.stdout}")
        printed = done.stdout
    else:
        with redirect_stdout(io.StringIO()) as file:
            run_python(block, names)
        printed = file.getvalue()
    if block["output"]:
        must_print(printed, block["output"])


def run_python(block: dict[str, Any], names: dict[str, Any]) -> None:
    """Run a block of Python with the names of the blocks before it."""
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


def manage(log: Path, *arguments: str) -> None:
    """Do what `python manage.py` does, and write what it prints into a log."""
    with log.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["manage.py", *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    runpy.run_path("manage.py", run_name="__main__")


def forked(log: Path, *arguments: str) -> BaseProcess:
    """Start a fork of this process that does what `python manage.py` does."""
    log.touch()
    sys.stdout.flush()
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=manage, args=(log, *arguments))
    process.start()
    return process


def ended(process: BaseProcess, patience: float) -> int | None:
    """Wait for a fork; return its exit code, None if it had to be killed."""
    process.join(patience)
    code = process.exitcode
    process.kill()
    return code


@contextmanager
def worker() -> Iterator[None]:
    """Have a worker work, and end well. Raises Untrue."""
    from django.db import connections

    connections.close_all()  # no two processes may have one
    log = Path("worker.log")
    process = forked(log, "qless_worker", "--no-reload")
    try:
        deadline = time.monotonic() + PATIENCE
        while " started worker=" not in log.read_text():
            if not process.is_alive() or time.monotonic() > deadline:
                raise Untrue("no worker starts")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        code = ended(process, 60)
    if code != 0:
        raise Untrue(f"the worker ends with {code}")


def check(modules: Sequence[str]) -> None:
    """Have Django's checks look at settings that are not used here. Raises Untrue."""
    for name in IMPORTED_BY_ALL:
        importlib.import_module(name)
    log = Path("check.log")
    for module in modules:
        process = forked(log, "check", f"--settings={module}")
        if ended(process, PATIENCE) != 0 or "no issues" not in log.read_text():
            raise Untrue(f"{Path(*module.split('.'))}.py: {log.read_text()}")


def set_up() -> None:
    """Make migrations for all apps, migrate, and check. Raises Untrue."""
    from django.apps import apps
    from django.core.management import call_command

    own = [
        each.label
        for each in apps.get_app_configs()
        if Path(each.path).parent == Path.cwd()
    ]
    call_command("makemigrations", *own, verbosity=0)
    call_command("migrate", verbosity=0)
    told = io.StringIO()
    call_command("check", stdout=told)
    if "no issues" not in told.getvalue():
        raise Untrue(told.getvalue())


def main() -> None:
    """Do what the command line asks for."""
    sys.path.insert(0, str(Path.cwd()))
    if sys.argv[1] == "check":
        check(sys.argv[2:])
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    set_up()
    if sys.argv[1] == "run":
        with worker():
            run_all(sys.argv[2])


if __name__ == "__main__":
    main()
