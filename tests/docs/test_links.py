"""Links between pages lead somewhere. (Sphinx checks those within docs/, and headings.)

Nothing is fetched: of addresses elsewhere only the form and the host are looked at.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import DOCS, ROOT

PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link and "mailto:" not in link]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert missing == []


#: Where addresses in pages may lead; a new one is a decision.
HOSTS = {"example.org", "127.0.0.1", "localhost", "qless-metrics"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_addresses_elsewhere_are_of_known_hosts(page: Path) -> None:
    addresses = re.findall(r"\bhttps?://[^\s)>`\"'|\\]*", page.read_text())
    parts = [urlsplit(address) for address in addresses]
    strange = [each.geturl() for each in parts if each.hostname not in HOSTS]
    assert strange == []
    plain = [each for each in parts if each.scheme == "http"]
    inside = {"127.0.0.1", "localhost", "qless-metrics"}
    assert {each.hostname for each in plain} <= inside
