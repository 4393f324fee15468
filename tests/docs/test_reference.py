"""The reference has a line for each thing that there is."""

from __future__ import annotations

import re

from django_qless.conf.validation import KNOWN as SETTINGS
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


def test_each_name_of_the_python_api_has_a_meaning() -> None:
    assert empty_cells("python-api", 1) == []


def test_each_option_and_argument_of_a_command_has_a_meaning() -> None:
    assert empty_cells("commands", 1) == []
    assert empty_cells("worker", 1) == []


def test_each_key_in_redis_has_a_meaning() -> None:
    assert empty_cells("keys", 2) == []


def test_asynchronous_methods_are_marked_as_such() -> None:
    """Also those that are made of a command of the client, and are no functions."""
    text = (DOCS / "reference" / "python-api.md").read_text()
    assert "`get(option: str)`, `await aget(…)`" in text
    assert "`async for … in adead_ids(…)`" in text
    assert not re.search(r"^\| `a(?:get|jobs|counts)\(", text, re.MULTILINE)


def empty_cells(page: str, column: int) -> list[str]:
    """Return the rows of a page that have nothing in this column."""
    lines = (DOCS / "reference" / f"{page}.md").read_text().splitlines()
    rows = [re.split(r" ?(?<!\\)\| ?", line) for line in lines if line[:1] == "|"]
    assert len(rows) > 20
    return [row[1] for row in rows if not row[column + 1].strip()]


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
