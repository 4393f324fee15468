"""All pages, tried as they are written: each is a new project, with a worker."""

from __future__ import annotations

from codeop import compile_command
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.docs.pages import Block, Page, pages
from tests.docs.project import Project

LANGUAGES = {
    "python",
    "sh",
    "output",
    "text",
    "ini",
    "yaml",
    "toml",
    "html",
    "lua",
    "{toctree}",
}


def is_tried(page: Page) -> bool:
    """Return whether something of a page is run by itself."""
    return not page.in_order and any(block.is_run for block in page.blocks)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A new project; its server is stopped in the end."""
    made = Project(tmp_path / "made")
    made.start()
    yield made
    made.stop_server()


TRIED = [page for page in pages() if is_tried(page)]


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.name)
def test_page(project: Project, page: Page) -> None:
    tried = [block for block in page.blocks if block.is_run]
    files = [block for block in tried if block.file]
    project.add(files)
    if steps := [block for block in tried if not block.file]:
        groups = project.run_blocks(steps)
        assert groups.keys() == page.failures, groups
    else:
        project.set_up()
    if any(fnmatchcase(block.file, "*/tests.py") for block in files):
        project.manage("test")
    for block in files:
        if fnmatchcase(block.file, "test_*.py"):
            plain = ("-p", "no:valkey", "-p", "no:cacheprovider")
            options = (*plain, "--ds=project.settings")
            project.run("python", "-m", "pytest", *options, block.file)


@pytest.mark.parametrize(
    "block",
    [block for page in pages() for block in page.blocks],
    ids=lambda block: f"{block.page}:{block.line}",
)
def test_blocks_are_run_or_say_why_not(block: Block) -> None:
    assert block.language in LANGUAGES
    if block.mark.startswith(("not run", "not compared")):
        assert len(block.mark.partition(":")[2].split()) >= 2, "no reason is given"
    if block.language == "output":
        assert block.follows_code, "it is not below what prints it"
    elif block.language == "text" and block.follows_code:
        assert block.mark.startswith("not compared"), "output is compared"


@pytest.mark.parametrize(
    "block",
    [
        block
        for page in pages()
        for block in page.blocks
        if block.language == "python" and block.is_run and not block.file
    ],
    ids=lambda block: f"{block.page}:{block.line}",
)
def test_blocks_can_be_pasted_into_a_shell(block: Block) -> None:
    """Python's plain prompt wants an empty line behind an indented block, none inside."""
    entered: list[str] = []
    for line in [*block.code.splitlines(), ""]:
        entered.append(line)
        if compile_command("\n".join(entered)) is not None:
            entered = []
    assert not "".join(entered)


def test_output_of_what_is_not_run_is_not_passed_off_as_compared() -> None:
    unseen = [
        f"{block.page}:{block.line}"
        for page in pages()
        for block in page.blocks
        if block.output and not block.is_run
    ]
    assert unseen == []
