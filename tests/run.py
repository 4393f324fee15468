"""Runs the tests and the checks, and says at the end what was left out.

    python -m tests.run all [pytest's arguments]     tests, then checks   (make test)
    python -m tests.run tests [pytest's arguments]   tests alone          (make test-fast)
    python -m tests.run checks                       checks alone         (make check)
    python -m tests.run format                       rewrites Python and Lua (make format)

What has no tool on this machine is left out and listed. With STRICT=1 in the
environment a list that is not empty is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import postgres, processes, real_servers, translations
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

    def run(self) -> bool:
        """Run the command; return whether all is well."""
        path = self.path()
        assert path is not None
        return run(path, *self.command[1:], name=" ".join(self.command))


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
    Check(("mypy", "tests/static_types/usage.py"), PIP),
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


def run(*command: str, name: str) -> bool:
    """Run one command at the project's root under its name."""
    print(f"\n== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


#: What all tests and checks take, in minutes of one processor.
MINUTES = 24


def say_how_long() -> None:
    """Print about how long everything takes here."""
    processors = os.cpu_count() or 1
    print(f"This takes about {-(-MINUTES // processors)} minutes on {processors} CPUs.")
    print("A part: make test ARGS='tests/lua -k pop'")


def run_tests(arguments: list[str]) -> bool:
    """Run pytest on all processors."""
    if not arguments:
        say_how_long()
    pytest = [sys.executable, "-m", "pytest", *processes.options()]
    print("\n== pytest", flush=True)
    command = [*pytest, "--quiet", *arguments]
    environment = processes.environment()
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    what, arguments = sys.argv[1], sys.argv[2:]
    left_out: list[str] = []
    failed: list[str] = []
    checks = {"format": FORMATS, "tests": []}.get(what, CHECKS)
    if what in ("all", "tests"):
        left_out += real_servers.missing() + postgres.missing() + chrome.missing()
        left_out += translations.missing() + deployment_tools.missing()
        if not run_tests(arguments):
            failed.append("pytest")
    for check in checks:
        name = " ".join(check.command)
        if check.path() is None:
            left_out.append(f"{name} (to have it: {check.where})")
        elif not check.run():
            failed.append(name)
    print()
    for words in left_out:
        print(f"Left out: {words}")
    if not left_out:
        print("Left out: nothing")
    for name in failed:
        print(f"FAILED: {name}")
    strict = os.environ.get("STRICT", "") not in {"", "0"}
    return 1 if failed or (strict and left_out) else 0


if __name__ == "__main__":
    sys.exit(main())
