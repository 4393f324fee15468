"""A Django project made of the files that a page shows."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from django_qless.servers import embedded
from tests.docs.pages import ROOT, Block

STEPS = Path(__file__).with_name("steps.py")
PATIENCE = 180.0


@dataclass(frozen=True)
class Project:
    """A Django project in a folder."""

    directory: Path

    @property
    def log(self) -> Path:
        """The log of its worker."""
        return self.directory / "worker.log"

    def run(self, *command: str) -> str:
        """Run a command to its end; return what it prints. `python` is this Python."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        log = self.log.read_text() if self.log.exists() else ""
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}\n{log}"
        return done.stdout

    def manage(self, *arguments: str) -> str:
        """Run a command of Django's."""
        return self.run("python", "manage.py", *arguments)

    def start(self) -> None:
        """Make the project as Django does."""
        shutil.copytree(_new_project(), self.directory)

    def stop_server(self) -> None:
        """Stop the embedded server, if the project has started one."""
        if (folder := self.directory / ".qless").exists():
            embedded.stop(folder)

    def add(self, blocks: Sequence[Block]) -> None:
        """Write the files of a page; `set_up` or `run_blocks` comes next."""
        settings = self.directory / "project" / "settings.py"
        parts = [settings.read_text(), "_before = INSTALLED_APPS\n"]
        others: list[str] = []
        for block in blocks:
            if block.mark == "only checked":
                others.append(settings.read_text() + block.code)
            elif block.file == "settings.py":
                parts.append(block.code)
            else:
                self.write(block)
        if others:
            self._check(others)
        apps = sorted(
            path.name
            for path in self.directory.iterdir()
            if path.is_dir() and path.name not in ("project", ".qless")
        )
        for app in apps:
            (self.directory / app / "__init__.py").touch()
        parts.append(
            f"_now = [*_before, *INSTALLED_APPS, 'django_qless', *{apps}]\n"
            "INSTALLED_APPS = list(dict.fromkeys(a for a in _now if a is not ...))\n"
        )
        settings.write_text("\n".join(parts))

    def write(self, block: Block) -> None:
        """Write a block to its file, or behind what is there of it."""
        path = self.directory / block.file
        path.parent.mkdir(exist_ok=True)
        with path.open("w" if block.mark == "instead" else "a") as file:
            file.write(block.code)

    def _check(self, others: Sequence[str]) -> None:
        """Have Django's checks look at settings that are not used here."""
        modules = [f"others{number}" for number in range(len(others))]
        for module, settings in zip(modules, others, strict=True):
            (self.directory / "project" / f"{module}.py").write_text(
                settings + "INSTALLED_APPS += ['django_qless']\n"
            )
        self.run("python", str(STEPS), "check", *(f"project.{it}" for it in modules))

    def set_up(self) -> None:
        """Do what a developer does after changing models, in one process."""
        self.run("python", str(STEPS), "set up")

    def run_blocks(self, blocks: Sequence[Block]) -> dict[str, int]:
        """Set up, run blocks beside a worker; return how many jobs failed, by group."""
        found = self.directory / "blocks.json"
        found.write_text(json.dumps([asdict(block) for block in blocks]))
        told = self.run("python", str(STEPS), "run", str(found))
        groups: dict[str, int] = json.loads(told.splitlines()[-1])
        return groups


@cache
def _new_project() -> Path:
    """Return a folder with a new project; it is made once by each process of tests."""
    folder = Path(tempfile.mkdtemp(prefix="project-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Project(folder).run("python", "-m", "django", "startproject", "project", ".")
    return folder


def environment() -> dict[str, str]:
    """Return the environment of a project's processes."""
    outside = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS")
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # Not that of whoever runs the tests.
    state = Path(tempfile.gettempdir()) / f"django_qless-tests-{os.getuid()}"
    own = {"PYTHONPATH": str(ROOT), "PATH": path, "XDG_STATE_HOME": str(state)}
    return outside | own
