"""When something recurs, in plain words."""

from __future__ import annotations

import pytest
from django.utils import translation

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
        (
            "*/15 9-17 * * 1-5",
            "every 15 minutes from 09:00 to 17:59 on Monday to Friday",
        ),
        ("0 * * * *", "every hour"),
        ("@hourly", "every hour"),
        ("5 * * * *", "every hour at minute 5"),
        ("30 */6 * * *", "every 6 hours at minute 30"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("5,35 9-17 * * *", "every hour at minute 5 and 35 from 09:00 to 17:59"),
        ("0 6 * * *", "at 06:00 every day"),
        ("@daily", "at 00:00 every day"),
        ("0 6 * * mon-fri", "at 06:00 on Monday to Friday"),
        ("30 6,18 * * sat,sun", "at 06:30 and 18:30 on Saturday and Sunday"),
        ("0 0 * * 7", "at 00:00 on Sunday"),
        ("0 0 * * 0", "at 00:00 on Sunday"),
        ("0 6 1 * *", "at 06:00 on day 1 of the month"),
        ("0 6 1,15 * *", "at 06:00 on days 1 and 15 of the month"),
        ("0 6 1 1 *", "at 06:00 on day 1 of January"),
        ("0 6 L * *", "at 06:00 on the last day of the month"),
        ("0 6 * jan-mar mon", "at 06:00 on Monday in January to March"),
        ("0 6 l * *", "at 06:00 on the last day of the month"),
        ("0 6 l 2 *", "at 06:00 on the last day of February"),
        ("0 6 L jan,jun *", "at 06:00 on the last day of January and June"),
        # What is hard to say is shown as it is written.
        ("*/10 */2 * * *", "cron */10 */2 * * *"),
        ("0 */5 * * *", "cron 0 */5 * * *"),
        ("0,10,20,30 6,7 * * *", "cron 0,10,20,30 6,7 * * *"),
        ("0 6 * */2 *", "cron 0 6 * */2 *"),
        ("0 6 */2 * *", "cron 0 6 */2 * *"),
        ("*/7 * * * *", "cron */7 * * * *"),
        ("0 0 1 * mon", "cron 0 0 1 * mon"),
        ("1-5 * * * *", "cron 1-5 * * * *"),
        ("0 6 * * mon#1", "cron 0 6 * * mon#1"),
        ("0  6 * * ?", "cron 0 6 * * ?"),
        # The last that each field may have, and the next.
        ("*/30 0-23 * * *", "every 30 minutes from 00:00 to 23:59"),
        ("0 */12 * * *", "every 12 hours"),
        ("59 23 * * *", "at 23:59 every day"),
        ("59 23 31 12 *", "at 23:59 on day 31 of December"),
        ("0 6 * 12 6", "at 06:00 on Saturday in December"),
        ("0 6 * 1 *", "at 06:00 every day in January"),
        ("0 1,2,3 * * *", "at 01:00, 02:00 and 03:00 every day"),
        (
            "15,45 1,2,3 * * *",
            "at 01:15, 01:45, 02:15, 02:45, 03:15 and 03:45 every day",
        ),
        ("0 1,2,3,4,5,6,7 * * *", "cron 0 1,2,3,4,5,6,7 * * *"),
        ("60 6 * * *", "cron 60 6 * * *"),
        ("*/60 * * * *", "cron */60 * * * *"),
        ("*/0 * * * *", "cron */0 * * * *"),
        ("0 24 * * *", "cron 0 24 * * *"),
        ("0 */24 * * *", "cron 0 */24 * * *"),
        ("0 9-24 * * *", "cron 0 9-24 * * *"),
        ("0 9-9 * * *", "cron 0 9-9 * * *"),
        ("*/5 9-9 * * *", "cron */5 9-9 * * *"),
        ("0 6 0 * *", "cron 0 6 0 * *"),
        ("0 6 32 * *", "cron 0 6 32 * *"),
        ("0 6 * 0 *", "cron 0 6 * 0 *"),
        ("0 6 * 13 *", "cron 0 6 * 13 *"),
        ("0 6 * * 8", "cron 0 6 * * 8"),
        ("0 6 * * 1-3-5", "cron 0 6 * * 1-3-5"),
        # Another program may have written a text that is none.
        ("0 6 * *", "cron 0 6 * *"),
        ("0 6 * * 1 2026", "cron 0 6 * * 1 2026"),
    ],
)
def test_cron(text: str, words: str) -> None:
    assert describe(None, text) == words
    assert describe(None, text, "Europe/Berlin") == f"{words}, Europe/Berlin"


@pytest.mark.parametrize(
    ("every", "cron", "words"),
    [
        (600, "", "alle 10 Minuten"),
        (0.5, "", "alle 0.5 Sekunden"),
        (1, "", "jede Sekunde"),
        (None, "0 6 * * mon-fri", "um 06:00 am Montag bis Freitag, Europe/Berlin"),
        (None, "0 6 1,15 3 *", "um 06:00 an den Tagen 1 und 15 im März, Europe/Berlin"),
        (None, "*/7 * * * *", "cron */7 * * * *, Europe/Berlin"),
    ],
)
def test_in_another_language(every: float | None, cron: str, words: str) -> None:
    with translation.override("de"):
        assert describe(every, cron, "Europe/Berlin") == words
