"""Links between pages lead somewhere. (Sphinx checks those within docs/, and headings.)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link and "mailto:" not in link]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert missing == []
