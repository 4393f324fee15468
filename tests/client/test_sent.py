"""What the client sends is what it sent: each command, with each of its arguments."""

from __future__ import annotations

import pytest

from tests.client.sent import SENT, all_lines

LINES = SENT.read_text().splitlines()


@pytest.mark.parametrize(
    "line", list(all_lines()), ids=lambda line: line.partition(":")[0]
)
def test_each_command_sends_what_it_did(line: str) -> None:
    """If that is meant to change: python -m tests.client.sent."""
    title = line.partition(": ")[0]
    assert line == next((each for each in LINES if each.startswith(f"{title}: ")), None)


def test_nothing_is_missing() -> None:
    assert list(all_lines()) == LINES
