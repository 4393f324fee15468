"""The reference has a line for each thing that there is."""

from __future__ import annotations

import re

from django_qless.conf.schema import KNOWN as SETTINGS
from django_qless.job_types.options import KNOWN, ONLY_DECLARED
from tests.docs.pages import DOCS, ROOT

STATUS = DOCS / "reference" / "status.md"


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


def test_each_member_of_the_status_has_a_meaning() -> None:
    """They are those of the snapshot, each in the table of the object that has it."""
    snapshot = (ROOT / "tests/public_api/json_output.txt").read_text()
    found = re.findall(
        r"^qless_status --json \.([\w .\[\]]+): ", snapshot, re.MULTILINE
    )
    parts = re.split(r"^(?:Each of )?`(\w+)`:$", STATUS.read_text(), flags=re.MULTILINE)
    tables = {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}
    missing = []
    for path in found:
        *above, member = path.replace(" []", "").split(" .")
        if (
            above[:1] != ["failures"]
            and f"`{member}`" not in tables[(above or [""])[0]]
        ):
            missing.append(path)
    assert len(found) > 20
    assert missing == []
