"""Builds the release, and follows the tutorial with it in an empty environment.

    python -m tests.release_check      (make release-check)

dist/ then has the sdist and the wheel. The wheel is what is tried: neither the checkout nor
its environment is on the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import django_qless

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

#: What a wheel without it would not work, of each kind of file.
NEEDED = (
    "py.typed",
    "core/qless.lua",
    "migrations/0001_initial.py",
    "static/django_qless/pages.css",
    "templates/admin/django_qless/overview.html",
)


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command; end with its exit code if it fails."""
    print(f"== {' '.join(map(str, command))}", flush=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def build() -> Path:
    """Build sdist and wheel; return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    (wheel,) = DIST.glob("*.whl")
    if f"-{django_qless.__version__}-" not in wheel.name:
        sys.exit(f"{wheel.name} is not of version {django_qless.__version__}")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in NEEDED:
        if f"django_qless/{name}" not in names:
            sys.exit(f"{wheel.name} lacks {name}")
    return wheel


def try_out(wheel: Path, folder: Path) -> None:
    """Follow the tutorial with the wheel, beside nothing but tests and pages."""
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[test]")
    for name in ("tests", "docs", "benchmarks"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=without)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    run(python, "-m", "pytest", "-q", "tests/docs/test_tutorial.py", cwd=folder)


def main() -> None:
    """Build, and try what was built."""
    wheel = build()
    with tempfile.TemporaryDirectory() as folder:
        try_out(wheel, Path(folder))
    print(f"{wheel.name} is fine; upload what is in {DIST}")


if __name__ == "__main__":
    main()
