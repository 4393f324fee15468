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
        (0.0994, "99 ms"),
        (0.0995, "0.1 s"),
        (0.0996, "0.1 s"),
        (1, "1.0 s"),
        (9.94, "9.9 s"),
        (9.95, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (192, "3 min 12 s"),
        (3599.6, "1 h"),
        (3659, "1 h"),
        (3660, "1 h 1 min"),
        (7500, "2 h 5 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (89_999, "1 d"),
        (90_000, "1 d 1 h"),
        (349200, "4 d 1 h"),
    ],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
