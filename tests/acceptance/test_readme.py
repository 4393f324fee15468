"""The pages of the README, tried as they are written.

Each page is a new Django project with a worker and an embedded server. A block of Python
that begins with the name of a file is that file; others are run one after the other. Marks
in comments say what else becomes of a block: `only checked`, `when all has run`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import django
import pytest
from django.core.management import load_command_class

from django_qless.job_types.options import KNOWN, ONLY_DECLARED, ONLY_USING

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
STEPS = Path(__file__).with_name("readme_steps.py")
PATIENCE = 180.0

#: The failure groups in which jobs of a page end.
FAILURES = {
    "Jobs": {"bad-input"},
    "Model methods": {"row-gone"},
    "Put when it is right": {"ValueError"},
}


@dataclass(frozen=True)
class Block:
    """A block of Python."""

    page: str
    mark: str
    line: int
    code: str

    @property
    def file(self) -> str:
        """The file that it is, "" for one that is run."""
        match = re.match(r"# (\S+\.py)\n", self.code)
        return match[1] if match else ""


@cache
def blocks() -> list[Block]:
    """Returns all blocks of the README."""
    found: list[Block] = []
    page = mark = ""
    begin = 0
    lines = README.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if begin:
            if line == "```":
                code = "\n".join(lines[begin : number - 1]) + "\n"
                found.append(Block(page, mark, begin + 1, as_written_for(code)))
                begin, mark = 0, ""
        elif line.startswith("## "):
            page = line[3:]
        elif line.startswith("<!-- "):
            mark = line[5:].removesuffix(" -->")
        elif line == "```python":
            begin = number
    return found


def as_written_for(code: str) -> str:
    """Returns the code as the README says that it is for this version of Django."""
    return (
        code
        if django.VERSION >= (6, 0)
        else code.replace("django.tasks", "django_tasks")
    )


PAGES = list(dict.fromkeys(block.page for block in blocks()))


@dataclass(frozen=True)
class Project:
    """A Django project made of a page."""

    directory: Path

    def run(self, *arguments: str) -> str:
        """Runs a Python program of the project to its end; returns what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        log = self.directory / "worker.log"
        told = log.read_text() if log.exists() else ""
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{told}"
        return done.stdout

    def manage(self, *arguments: str) -> str:
        """Runs a command of Django's."""
        return self.run("manage.py", *arguments)

    def write(self, page: str) -> None:
        """Writes the page's files, and makes its migrations."""
        settings = self.directory / "project" / "settings.py"
        parts = [settings.read_text(), "_before = INSTALLED_APPS\n"]
        for block in files_of(page):
            if block.mark == "only checked":
                self.check(settings.read_text() + block.code)
            elif block.file == "settings.py":
                parts.append(block.code)
            else:
                path = self.directory / block.file
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.code)
        apps = [path.name for path in self.directory.iterdir() if is_app(path)]
        for app in apps:
            (self.directory / app / "__init__.py").touch()
        parts.append(
            f"_now = [*_before, *INSTALLED_APPS, 'django_qless', *{apps}]\n"
            "INSTALLED_APPS = list(dict.fromkeys(a for a in _now if a is not ...))\n"
        )
        settings.write_text("\n".join(parts))
        self.manage("makemigrations", *apps)
        self.manage("migrate")
        assert "no issues" in self.manage("check")

    def check(self, settings: str) -> None:
        """Has Django's checks look at settings that are not used here."""
        (self.directory / "project" / "others.py").write_text(
            settings + "INSTALLED_APPS += ['django_qless']\n"
        )
        assert "no issues" in self.manage("check", "--settings=project.others")


def environment() -> dict[str, str]:
    outside = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS")
    }
    return outside | {"PYTHONPATH": str(ROOT)}


def files_of(page: str) -> list[Block]:
    return [block for block in blocks() if block.page == page and block.file]


def is_app(path: Path) -> bool:
    return path.is_dir() and path.name not in ("project", ".qless")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A new project; its server is stopped in the end."""
    made = Project(tmp_path / "made")
    made.directory.mkdir()
    made.run("-m", "django", "startproject", "project", ".")
    yield made
    made.manage("qless_embedded", "stop")


@pytest.mark.parametrize("page", PAGES)
def test_page(project: Project, page: str) -> None:
    project.write(page)
    to_be_run = [b for b in blocks() if b.page == page and not b.file]
    if to_be_run:
        groups = run_blocks(project, to_be_run)
        assert groups.keys() == FAILURES.get(page, set()), groups
    if any(fnmatchcase(block.file, "*/tests.py") for block in files_of(page)):
        project.manage("test")
    for block in files_of(page):
        if fnmatchcase(block.file, "test_*.py"):
            plain = ("-p", "no:valkey", "-p", "no:cacheprovider")
            project.run("-m", "pytest", *plain, "--ds=project.settings", block.file)


def run_blocks(project: Project, to_be_run: list[Block]) -> dict[str, int]:
    """Runs blocks while a worker works; returns how many jobs failed, by group."""
    found = project.directory / "blocks.json"
    found.write_text(json.dumps([asdict(block) for block in to_be_run]))
    with (project.directory / "worker.log").open("w") as log:
        worker = subprocess.Popen(
            [sys.executable, "manage.py", "qless_worker", "--no-reload"],
            cwd=project.directory,
            env=environment(),
            stdout=log,
            stderr=log,
        )
    try:
        wait_until_it_works(worker, project.directory / "worker.log")
        told = project.run(str(STEPS), str(found))
    finally:
        worker.terminate()
        assert worker.wait(60) == 0
    groups: dict[str, int] = json.loads(told.splitlines()[-1])
    return groups


def wait_until_it_works(worker: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while " started worker=" not in log.read_text():
        assert worker.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def test_all_options_are_named() -> None:
    text = README.read_text()
    listed = re.search(
        r"Options of `@job` and of `.using\(\)`: `([^`]*)`; only of `@job`: `([^`]*)`; "
        r"only of `.using\(\)`: `([^`]*)`",
        " ".join(text.split()),
    )
    assert listed
    both, declared, using = (set(each.split()) for each in listed.groups())
    assert using == ONLY_USING
    assert declared == ONLY_DECLARED
    assert both == KNOWN - ONLY_DECLARED - ONLY_USING


def test_the_commands_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    page = README.read_text().partition("## The operator's view")[2]
    rows = re.findall(r"^\| `(qless_\w+)(.*?)\|", page, re.MULTILINE)
    assert len(rows) >= 8
    for name, rest in rows:
        first = re.findall(r"^ (\w+)`", rest)
        words = [*first, *re.findall(r"`(\w+)`", rest)]
        for word in words or [""]:
            arguments = [word, "--help"] if word else ["--help"]
            parser = load_command_class("django_qless", name).create_parser("", name)
            with pytest.raises(SystemExit) as ended:
                parser.parse_args(arguments)
            assert ended.value.code == 0, (name, word)
            told = capsys.readouterr().out
            for option in ("--alias", *re.findall(r"\[(--[\w-]+)\]", rest)):
                assert option in told, (name, word)
