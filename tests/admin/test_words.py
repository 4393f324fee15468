"""How long something took, as people read it."""

from __future__ import annotations

import pytest
from django.utils import translation

from django_qless.admin import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, "0.0 s"),
        (0.012, "12 ms"),
        (3.16, "3.2 s"),
        (12, "12 s"),
        (192, "3 min 12 s"),
        (-7500, "−2 h 5 min"),
    ],
)
def test_a_span(seconds: float | None, text: str) -> None:
    assert words.span(seconds) == text


def test_a_span_keeps_its_order_from_right_to_left() -> None:
    with translation.override("ar"):
        assert words.span(192) == "\u20683 min 12 s\u2069"
        assert words.span(-192) == "\u2068−3 min 12 s\u2069"
