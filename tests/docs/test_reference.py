"""The reference has a line for each thing that there is."""

from __future__ import annotations

import re

from django_qless.conf.schema import KNOWN as SETTINGS
from django_qless.job_types.options import KNOWN, ONLY_DECLARED
from tests.docs.pages import DOCS


def rows_of(page: str) -> dict[str, str]:
    """Return the last-but-named cells of the rows of a page, by what the first names."""
    found = {}
    for line in (DOCS / "reference" / f"{page}.md").read_text().splitlines():
        if match := re.match(r"\| `\"?([\w-]+)\"?` \| (.*) \|$", line):
            found[match[1]] = match[2]
    return found


def test_each_option_of_a_job_has_a_meaning() -> None:
    rows = rows_of("job-options")
    assert rows.keys() == KNOWN | ONLY_DECLARED
    for name, cells in rows.items():
        assert cells.rpartition(" | ")[2].strip(), name


def test_each_key_of_the_setting_has_a_meaning() -> None:
    rows = rows_of("settings")
    assert rows.keys() >= SETTINGS
    for name, cells in rows.items():
        assert len(cells) > 3, name
