"""How long something took, in words."""

from __future__ import annotations

import pytest

from django_qless.operations.durations import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.0004, "1 ms"),
        (0.079, "79 ms"),
        (0.0996, "0.1 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (192, "3 min 12 s"),
        (7500, "2 h 5 min"),
        (86400, "1 d"),
        (349200, "4 d 1 h"),
    ],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
