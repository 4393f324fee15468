"""A copy of the example project, and how to run its programs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_project"

LEFTOVERS = (
    ".qless",
    "archives",
    "db.sqlite3*",
    "*.log",
    "passing_by.py",
    "__pycache__",
)


def environment() -> dict[str, str]:
    """The environment of the example's programs: nothing of the tests' settings."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name != "DJANGO_SETTINGS_MODULE"
    }
    return inherited | {"PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Demo:
    """A copy of the example project, so that its data are its own."""

    directory: Path

    @classmethod
    def copied_to(cls, directory: Path) -> Demo:
        """Copy the project into a new directory."""
        left_out = shutil.ignore_patterns(*LEFTOVERS)
        shutil.copytree(EXAMPLE, directory, ignore=left_out)
        return cls(directory)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program of the project to its end."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Ask the project's database, without Django."""
        with sqlite3.connect(self.directory / "db.sqlite3") as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query)]

    def status(self) -> dict[str, Any]:
        """What `qless_status` tells."""
        shown = self.run("manage.py", "qless_status", "--json")
        assert shown.returncode == 0, shown.stderr
        return dict(json.loads(shown.stdout))

    def close(self) -> None:
        """Stop the project's server, if it has been started."""
        if not (self.directory / ".qless").exists():
            return
        self.run("manage.py", "qless_embedded", "stop")
        status = self.run("manage.py", "qless_embedded", "status")
        assert "not running" in status.stdout
