"""When something recurs, in plain words."""

from __future__ import annotations

import pytest

from django_qless.schedules.description import describe


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "every second"),
        (1.5, "every 1.5 seconds"),
        (60, "every minute"),
        (90, "every 90 seconds"),
        (600, "every 10 minutes"),
        (3600, "every hour"),
        (5400, "every 90 minutes"),
        (86400, "every day"),
        (129600, "every 36 hours"),
        (604800, "every week"),
        (691200, "every 8 days"),
        (7200, "every 2 hours"),
        (120, "every 2 minutes"),
        (2, "every 2 seconds"),
        (1209600, "every 2 weeks"),
    ],
)
def test_intervals(seconds: float, words: str) -> None:
    assert describe(seconds) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/10 * * * *", "every 10 minutes"),
        ("@hourly", "every hour"),
        ("0 6 * * mon-fri", "at 06:00, Monday through Friday"),
        ("0 0 * * 7", "at 00:00, only on Sunday"),
        ("0 6 l * *", "at 06:00, on the last day of the month"),
        ("0 0 1 * mon", "at 00:00, on day 1 of the month, or on Monday"),
        # Steps that begin again with each hour or day are no interval.
        ("*/7 * * * *", "cron */7 * * * *"),
        ("0  */5 * * *", "cron 0 */5 * * *"),
        # Another program may have written a text that is none.
        ("*/0 * * * *", "cron */0 * * * *"),
        ("0 6 * *", "cron 0 6 * *"),
        ("0 6 * 13 *", "cron 0 6 * 13 *"),
        ("0 6 * * 1-3-5", "cron 0 6 * * 1-3-5"),
        ("0 24 * * *", "cron 0 24 * * *"),
        ("x 6 * * *", "cron x 6 * * *"),
        ("0 6 * * mon#9", "cron 0 6 * * mon#9"),
    ],
)
def test_cron(text: str, words: str) -> None:
    assert describe(None, text) == words
    assert describe(None, text, "Europe/Berlin") == f"{words}, Europe/Berlin"
