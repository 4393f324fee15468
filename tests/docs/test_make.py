"""What pages say of make: each target is there, once, and `make help` has a line for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z-]+):[^#\n]*(?:##|$)", MAKEFILE, re.MULTILINE)
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]


def test_each_target_is_there_once() -> None:
    declared = re.findall(r"^\.PHONY:((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)
    assert sorted(TARGETS) == sorted(declared[0].replace("\\\n", " ").split())


def test_help_has_a_line_for_each_target() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not told.stderr
    assert set(TARGETS) <= set(re.findall(r"^  ([a-z-]+) ", told.stdout, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"(?:`|^ {4}|^)make ([a-z][a-z-]*)", text, re.MULTILINE)
    assert set(named) <= set(TARGETS)
