"""How long something took, as people read it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from django.utils import timezone as zones
from django.utils import translation

from django_qless.admin import formatting


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
    assert formatting.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (9, "9 s"), (10, "10 s"), (72, "1 min 12 s")]
)
def test_a_span_of_whole_seconds(seconds: float, text: str) -> None:
    assert formatting.whole_span(seconds) == text


@pytest.mark.parametrize("seconds", [None, 0, 1e12, 1e17, 1e300, float("nan")])
def test_no_moment(seconds: float | None) -> None:
    """Also if a field on the server has nonsense."""
    assert formatting.moment(seconds) is None


def test_a_moment_is_shown_in_the_time_zone_of_the_user() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    with zones.override(zone):
        found = formatting.moment(86400)
    assert found == datetime(1970, 1, 2, tzinfo=timezone.utc)
    assert found.tzinfo is zone


def test_a_number_is_written_as_in_the_language_of_the_user() -> None:
    assert [formatting.number(each) for each in (None, "", 0)] == ["", "", "0"]
    with translation.override("en"):
        assert formatting.number(1234567) == "1,234,567"
    with translation.override("de"):
        assert formatting.number(1234567.5) == "1.234.567,5"


def test_an_end_of_a_paragraph_ends_no_isolation() -> None:
    field = '<input value="a\u2029"><textarea>a\u2029</textarea>'
    html = f"<p><a>a\u2029b</a></p>{field}<p>\u2029</p>"
    assert formatting.in_one_line(html) == f"<p><a>a b</a></p>{field}<p> </p>"


def test_what_turns_words_is_spelt() -> None:
    assert formatting.visible("a\u202eb\u2067 c") == "a⟨U+202E⟩b⟨U+2067⟩ c"
    assert formatting.visible("\u20683 min\u2069") == "\u20683 min\u2069"


def test_a_span_keeps_its_order_from_right_to_left() -> None:
    with translation.override("ar"):
        assert formatting.span(192) == "\u20683 min 12 s\u2069"
        assert formatting.span(-192) == "\u2068−3 min 12 s\u2069"
