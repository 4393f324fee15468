"""Runs the tests and the checks, and says at the end what was left out.

    python -m tests.run all [pytest's arguments]     tests, with checks    (make test)
    python -m tests.run tests [pytest's arguments]   tests alone          (make test-fast)
    python -m tests.run checks                       checks alone         (make check)
    python -m tests.run format                       rewrites Python and Lua (make format)

What has no tool on this machine is left out and listed. With STRICT=1 in the
environment a list that is not empty is a failure.

Thousands of tests start and kill real processes on a busy machine, so one of them may meet
a pause that it did not reckon with. If at most three fail, these run once more, alone, and
one that passes then is named at the end: it has a fault, but not one of the change at hand.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import postgres, processes, real_servers
from tests.admin.browser import chrome
from tests.docs import deployment_tools

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = Path(sys.executable).parent
NODE_TOOLS = ROOT / ".tools" / "node_modules" / ".bin"


@dataclass(frozen=True)
class Check:
    """One command line that has nothing to say about good code."""

    command: tuple[str, ...]
    where: str

    def path(self) -> str | None:
        """Return the tool's path, or None if it is not here."""
        tool = self.command[0]
        beside = shutil.which(tool, path=os.pathsep.join(map(str, self.folders())))
        return beside or shutil.which(tool)

    def folders(self) -> list[Path]:
        """Return where make and CI put tools."""
        return [ENVIRONMENT, NODE_TOOLS]

    @property
    def name(self) -> str:
        """What people type."""
        return " ".join(self.command)

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the command at the project's root; return how it ended, with its output."""
        path = self.path()
        assert path is not None
        return subprocess.run(
            [path, *self.command[1:]],
            cwd=ROOT,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


PIP = "pip install -e '.[dev]'"
PYTHON = ("--pythonpath", sys.executable)
PYRIGHT = "npm install --prefix .tools pyright"
NPM = "npm install --prefix .tools @johnnymorganz/stylua-bin"

CHECKS = [
    Check(("python", "lua/build.py", "--check"), "Python"),
    Check(("python", "docs/build_reference.py", "--check"), "Python"),
    Check(
        ("sphinx-build", "-W", "-q", "docs", "build/docs"), "pip install -e '.[docs]'"
    ),
    Check(("ruff", "check", "."), PIP),
    Check(("ruff", "format", "--check", "."), PIP),
    Check(("mypy",), PIP),
    Check(("python", "-m", "tests.static_types.readme"), "Python"),
    Check(("mypy", "tests/static_types/usage.py", "build/readme"), PIP),
    Check(("pyright", "--project", "tests/static_types", *PYTHON), PYRIGHT),
    Check(("lint-imports",), PIP),
    Check(
        ("luacheck", "--quiet", "--no-color", "django_qless/core/qless.lua"),
        "apt-get install lua-check",
    ),
    Check(("stylua", "--check", "lua"), NPM),
]
FORMATS = [
    Check(("ruff", "check", "--fix", "--quiet", "."), PIP),
    Check(("ruff", "format", "."), PIP),
    Check(("stylua", "lua"), NPM),
    Check(("python", "lua/build.py"), "Python"),
]


#: What all tests and checks take, in minutes of one processor.
MINUTES = 36


def say_how_long() -> None:
    """Print about how long everything takes here."""
    processors = os.cpu_count() or 1
    print(f"This takes about {-(-MINUTES // processors)} minutes on {processors} CPUs.")
    print("A part: make test ARGS='tests/core -k settle'")


#: Up to this many failed tests run once more. More of them are no accident.
REPEATED = 3


@dataclass(frozen=True)
class Tests:
    """How a run of pytest ended."""

    passed: bool
    failed: list[str]
    passed_when_repeated: list[str]


def compile_tests() -> None:
    """Have each test file of a fresh checkout compiled once, not by each process anew."""
    if any(ROOT.glob("tests/__pycache__/conftest.*pytest*")):
        return
    # By folders: files of a folder that is left out here would be collected if named.
    found = ROOT.glob("tests/**/test_*.py")
    parts = sorted({"/".join(path.relative_to(ROOT).parts[:2]) for path in found})
    number = os.cpu_count() or 1
    shares = [parts[first::number] for first in range(number)]
    compiling = [
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq", *share],
            cwd=ROOT,
            env=processes.environment(),
            stdout=subprocess.DEVNULL,
        )
        for share in shares
        if share
    ]
    # What is wrong with a file, the run says.
    for each in compiling:
        each.wait()


def run_tests(arguments: list[str], *, repeat: bool) -> Tests:
    """Run pytest on all processors, and with `repeat` the few that failed once more."""
    if not arguments:
        say_how_long()
        compile_tests()
    with tempfile.TemporaryDirectory() as folder:
        # Caches of their own: the developer's names tests of earlier runs too.
        whole, again = Path(folder, "whole"), Path(folder, "again")
        cache = ["-o", f"cache_dir={whole}"] if repeat else []
        passed = pytest("pytest", *processes.options(), *cache, *arguments)
        failed = last_failed(whole)
        # A file that cannot be imported has no "::", and keeps all other tests from running.
        if not 0 < len(failed) <= REPEATED or not all("::" in name for name in failed):
            return Tests(passed, failed, [])
        passed = pytest("pytest, once more", "-o", f"cache_dir={again}", *failed)
        still = last_failed(again)
        return Tests(passed, still, [name for name in failed if name not in still])


def pytest(name: str, *arguments: str) -> bool:
    """Run pytest; return whether all is well."""
    print(f"\n== {name}", flush=True)
    command = [sys.executable, "-m", "pytest", "--quiet", *arguments]
    environment = processes.environment()
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


def last_failed(cache: Path) -> list[str]:
    """Return the tests that failed in the last run with this cache."""
    try:
        names = json.loads((cache / "v/cache/lastfailed").read_text())
    except FileNotFoundError:
        return []
    # pytest-xdist appends the group of those that belong together.
    return [re.sub(r"@[^]@]*$", "", name) for name in names]


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    what, arguments = sys.argv[1], sys.argv[2:]
    left_out: list[str] = []
    failed: list[str] = []
    repeated: list[str] = []
    checks = {"format": FORMATS, "tests": []}.get(what, CHECKS)
    # One at a time beside the tests, which wait for a part of their time.
    beside = ThreadPoolExecutor(1)
    try:
        running = [(each, beside.submit(each.run)) for each in checks if each.path()]
        if what in ("all", "tests"):
            left_out += real_servers.missing() + postgres.missing() + chrome.missing()
            left_out += deployment_tools.missing()
            tests = run_tests(arguments, repeat=what == "all" and not arguments)
            repeated = tests.passed_when_repeated
            if not tests.passed:
                failed += tests.failed or ["pytest"]
        for check, outcome in running:
            print(f"\n== {check.name}", flush=True)
            ended = outcome.result()
            print(ended.stdout, end="")
            if ended.returncode:
                failed.append(check.name)
    finally:
        beside.shutdown(cancel_futures=True)
    left_out += [
        f"{each.name} (to have it: {each.where})" for each in checks if not each.path()
    ]
    print()
    for words in left_out:
        print(f"Left out: {words}")
    if not left_out:
        print("Left out: nothing")
    for name in repeated:
        print(f"Failed, and passed when it ran once more and alone: {name}")
    for name in failed:
        print(f"FAILED: {name}")
    strict = os.environ.get("STRICT", "") not in {"", "0"}
    return 1 if failed or (strict and left_out) else 0


if __name__ == "__main__":
    sys.exit(main())
