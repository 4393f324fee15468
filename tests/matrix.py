"""Runs the tests with each named combination of Python, Django and redis-py.

    python -m tests.matrix [pytest's arguments]      (make matrix)

Each combination has an environment of its own under .matrix/. An interpreter that is
not on PATH leaves its combinations out; the end lists them, and with STRICT=1 in the
environment that is a failure. COMBINATIONS="py3.11 py3.13" chooses by name. With --install
as the only argument the environments are made, for the next run to begin at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import processes

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Combination:
    """One Python with the releases of the libraries that are tested together."""

    python: str
    requirements: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called, and its environment too."""
        parts = [f"py{self.python}", *self.requirements]
        return "-".join(parts).replace("==", "").replace(".*", "")

    @property
    def folder(self) -> Path:
        """Its environment."""
        return ROOT / ".matrix" / self.name

    def interpreter(self) -> str | None:
        """Return the path of a Python of this version, or None."""
        # A shim on PATH proves nothing: ask it.
        question = [f"python{self.python}", "-c", "import sys; print(sys.executable)"]
        try:
            done = subprocess.run(question, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    @property
    def prepared(self) -> Path:
        """Stands for an environment that is up to date, until a run has used it."""
        return self.folder / "prepared"

    def is_prepared(self) -> bool:
        """Return whether --install has just made the environment; forget that it has."""
        if was := self.prepared.exists():
            self.prepared.unlink()
        return was

    def install(self, interpreter: str) -> bool:
        """Make the environment what pyproject.toml and this combination ask for."""
        python = str(self.folder / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        return succeeds(interpreter, "-m", "venv", str(self.folder)) and succeeds(
            *pip, "--upgrade", "--editable", ".[test,browser]", *self.requirements
        )

    def test(self, arguments: list[str]) -> bool:
        """Run all tests in the environment."""
        python = str(self.folder / "bin" / "python")
        pytest = [python, "-m", "pytest", *processes.options()]
        return succeeds(*pytest, "--quiet", *arguments)


COMBINATIONS = [
    Combination("3.11", ("django==5.2.*", "redis==6.*", "django-redis==6.*")),
    Combination("3.11", ("django==5.2.*", "redis==8.*", "django-redis==7.*")),
    Combination("3.12", ("django==6.1.*", "redis==7.*", "django-redis==6.*")),
    Combination("3.13", ("django==6.1.*", "redis==8.*", "django-redis==7.*")),
]


def succeeds(*command: str) -> bool:
    """Run a command at the project's root; return whether it ends well."""
    environment = processes.environment()
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


def main() -> int:
    """Run the combinations; return the exit code."""
    chosen = tuple(os.environ.get("COMBINATIONS", "py").split())
    combinations = [each for each in COMBINATIONS if each.name.startswith(chosen)]
    if not combinations:
        print(f"None begins with {chosen}:", *(each.name for each in COMBINATIONS))
        return 1
    only_install = sys.argv[1:] == ["--install"]
    results: list[tuple[str, str]] = []
    for combination in combinations:
        print(f"\n== {combination.name}", flush=True)
        interpreter = combination.interpreter()
        if interpreter is None:
            result = f"left out: no python{combination.python} on PATH"
        elif not (combination.is_prepared() or combination.install(interpreter)):
            result = "FAILED to install"
        elif only_install:
            combination.prepared.touch()
            result = "prepared"
        else:
            result = "passed" if combination.test(sys.argv[1:]) else "FAILED"
        results.append((combination.name, result))
    print()
    for name, result in results:
        print(f"{name:48} {result}")
    strict = os.environ.get("STRICT", "") not in {"", "0"}
    bad = ("FAILED", "left out") if strict else ("FAILED",)
    return 1 if any(result.startswith(bad) for _, result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
