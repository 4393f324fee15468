"""Which texts are rates: starts within a window, each within its bounds."""

from __future__ import annotations

import pytest

from django_qless.core import BadArgument, Client
from django_qless.core.rates import is_rate

RATES = [
    *("1/s", "100/m", "5/h", "7/d", "5/10s", "3/1.5m", "2/.5h", "2/5.h"),
    *("10000/s", "1/366d", "1/8784h", "1/527040m", "1/31622400s", "007/s"),
]
OTHERS = [
    *("0/s", "10001/s", "20000/m", "1/367d", "1/8785h", "1/527041m", "1/31622401s"),
    *("1/0s", "1/0.0s", "1/.s", "1/", "/s", "1", "", "1/w", "1/5", "-1/s", "1/-5s"),
    *("1.5/s", " 1/s", "1/s ", "1/s\n", "1/S", "1//s", "x1/s", "1/1.5.5s", "٣/s"),
]


@pytest.mark.parametrize("text", RATES)
def test_a_rate(text: str) -> None:
    assert is_rate(text) is True


@pytest.mark.parametrize("text", [*OTHERS, None, 5, b"1/s"])
def test_what_is_no_rate(text: object) -> None:
    assert is_rate(text) is False


def test_the_core_takes_the_same_for_rates(client: Client) -> None:
    for text in RATES:
        client.queue("mail").set_rate(text)
        assert client.config_get("mail-rate") == text
    for text in OTHERS:
        with pytest.raises(BadArgument):
            client.queue("mail").set_rate(text)
