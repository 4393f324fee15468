"""Pages that make their project themselves, step by step, followed as a reader does.

All blocks are run in their order, in an empty folder: ```sh as it is, Python in
`manage.py shell`, a file when its block comes. Beside the marks of `pages.py` there is

    <!-- in the background -->   a program that stays, and is ended in the end
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.docs import steps
from tests.docs.pages import Block, Page, pages
from tests.docs.project import PATIENCE, Project, environment

LOOK_AT_THE_ADMIN = """
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.get(username="ada"))
for name, args, shown in (
    ("django_qless_overview_changelist", (), "warehouse"),
    ("django_qless_job_changelist", (), "pack-1"),
    ("django_qless_job_change", ("pack-1",), "AttributeError"),
    ("django_qless_recurring_changelist", (), "shop.jobs.report"),
    ("shop_order_changelist", (), "Jobs"),
    ("shop_order_jobs", (1,), "write_invoice"),
):
    page = client.get(reverse(f"admin:{name}", args=args))
    assert shown in page.content.decode(), (name, page.status_code)
"""


class Reader:
    """Does what a page says."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.project = Project(directory)
        self._programs: list[subprocess.Popen[bytes]] = []
        #: How long the worker's log was when code changed that it has not yet.
        self._changed_at: int | None = None

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.mark == "only checked":
            self._check(block)
        elif block.file:
            self._write(block)
        elif block.mark == "in the background":
            self._start(block)
        elif block.language == "sh":
            self._wait_for_reload()
            printed = self.project.run("bash", "-euc", block.code)
            if block.output:
                steps.must_print(printed, block.output)
        else:
            self._wait_for_reload()
            self.shell(
                "from tests.docs import steps\n"
                f"steps.run({asdict(block)!r}, {{'must_be': steps.must_be}})"
            )

    def shell(self, code: str) -> str:
        """Enter code in `manage.py shell`; return what it prints."""
        return self.project.manage("shell", "-c", code)

    def end(self) -> None:
        """End what was started."""
        for program in self._programs:
            os.killpg(program.pid, signal.SIGTERM)
        codes = [program.wait(60) for program in self._programs]
        self.project.stop_server()
        assert not any(codes), self.project.log.read_text()

    def _write(self, block: Block) -> None:
        if self._programs and self._changed_at is None:
            self._changed_at = len(self.project.log.read_text())
        self.project.write(block)

    def _check(self, block: Block) -> None:
        """Have Django's checks look at the settings of a block."""
        package, file = block.file.split("/")
        folder = self.project.directory / package
        (folder / "others.py").write_text((folder / file).read_text() + block.code)
        told = self.project.manage("check", f"--settings={package}.others")
        assert "no issues" in told, told

    def _start(self, block: Block) -> None:
        with self.project.log.open("ab") as log:
            program = subprocess.Popen(
                ["bash", "-euc", f"exec {block.code}"],
                cwd=self.project.directory,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._programs.append(program)
        self._changed_at = 0
        self._wait_for_reload()

    def _wait_for_reload(self) -> None:
        """Wait until the worker has the code that was written, as a reader would."""
        if self._changed_at is None:
            return
        deadline = time.monotonic() + PATIENCE
        while (
            " started worker=" not in self.project.log.read_text()[self._changed_at :]
        ):
            assert time.monotonic() < deadline, self.project.log.read_text()
            assert self._programs[-1].poll() is None, self.project.log.read_text()
            time.sleep(0.05)
        self._changed_at = None


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader with an empty folder."""
    made = Reader(tmp_path / "made")
    yield made
    made.end()


STEP_BY_STEP = [page for page in pages() if page.in_order]


@pytest.mark.parametrize("page", STEP_BY_STEP, ids=lambda page: page.name)
def test_page(reader: Reader, page: Page) -> None:
    for block in page.blocks:
        if block.is_run:
            reader.follow(block)
    if page.name == "docs/tutorial.md":
        reader.shell(LOOK_AT_THE_ADMIN)
